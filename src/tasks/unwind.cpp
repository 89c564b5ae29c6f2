// SPDX-License-Identifier: Apache-2.0
// Call frame information: DWARF 4, 6.4, as used in .eh_frame (Linux Standard Base, 10.6).
#include "tasks/unwind.hpp"

#include <ucontext.h>

#include <cstring>

#include "dsm/fault/dispatch.hpp"

extern "C" {
// libgcc's and LLVM's unwinders both have it; declared in no installed header.
struct dwarf_eh_bases {
  void* tbase;
  void* dbase;
  void* func;
};
const void* _Unwind_Find_FDE(void* pc, dwarf_eh_bases* bases);
}

namespace ayatori::tasks {
namespace {

class Reader {
 public:
  explicit Reader(const void* at) : at_(static_cast<const std::uint8_t*>(at)) {}
  template <class T>
  T take() noexcept {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t uleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  std::int64_t sleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const auto byte = take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if ((byte & 0x40) != 0 && shift < 64) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
  }
  // Skips a pointer of encoding DW_EH_PE_*.
  bool skip_encoded(std::uint8_t encoding) noexcept {
    if (encoding == 0xff) return true;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c: at_ += 8; return true;
      case 0x01: uleb(); return true;
      case 0x09: sleb(); return true;
      case 0x02:
      case 0x0a: at_ += 2; return true;
      case 0x03:
      case 0x0b: at_ += 4; return true;
      default: return false;
    }
  }
  void skip(std::uint64_t bytes) noexcept { at_ += bytes; }
  const std::uint8_t* at() const noexcept { return at_; }

 private:
  const std::uint8_t* at_;
};

struct Rule {
  enum Kind : std::uint8_t { kSame, kUndefined, kAtOffset, kIsOffset, kRegister, kAtExpression, kIsExpression };
  Kind kind = kSame;
  std::int64_t value = 0;                    // offset or register
  const std::uint8_t* expression = nullptr;  // its length comes first
};

struct Row {
  Rule rules[Frame::kRegisters];
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  const std::uint8_t* cfa_expression = nullptr;
};

constexpr int kMaxRemembered = 8;
constexpr int kMaxOperands = 16;

struct Program {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint8_t pointer_encoding = 0;
  Row initial;
  Row remembered[kMaxRemembered];
  int remembered_count = 0;
};

bool evaluate(const std::uint8_t* expression, const Frame& frame, StackMemory& memory, bool has_first,
              std::uint64_t first, std::uint64_t& result) {
  Reader in(expression);
  const std::uint64_t bytes = in.uleb();
  const std::uint8_t* const end = in.at() + bytes;
  std::uint64_t stack[kMaxOperands];
  int n = 0;
  if (has_first) stack[n++] = first;
  while (in.at() < end) {
    const auto op = in.take<std::uint8_t>();
    if (n >= kMaxOperands - 1) return false;
    const bool binary = op == 0x1a || op == 0x1c || op == 0x1e || op == 0x21 || op == 0x22 || op == 0x24 || op == 0x2a;
    if ((binary && n < 2) || ((op == 0x06 || op == 0x12 || op == 0x23) && n < 1)) return false;
    if (op >= 0x30 && op <= 0x4f) {  // lit0...
      stack[n++] = op - 0x30u;
    } else if (op >= 0x70 && op <= 0x8f) {  // breg0...
      const std::int64_t offset = in.sleb();
      if (op - 0x70 >= Frame::kRegisters) return false;
      stack[n++] = frame.registers[op - 0x70] + static_cast<std::uint64_t>(offset);
    } else {
      switch (op) {
        case 0x06:  // deref
          if (!memory.read(stack[n - 1], &stack[n - 1], 8)) return false;
          break;
        case 0x08: stack[n++] = in.take<std::uint8_t>(); break;
        case 0x09: stack[n++] = static_cast<std::uint64_t>(std::int64_t{in.take<std::int8_t>()}); break;
        case 0x0a: stack[n++] = in.take<std::uint16_t>(); break;
        case 0x0b: stack[n++] = static_cast<std::uint64_t>(std::int64_t{in.take<std::int16_t>()}); break;
        case 0x0c: stack[n++] = in.take<std::uint32_t>(); break;
        case 0x0d: stack[n++] = static_cast<std::uint64_t>(std::int64_t{in.take<std::int32_t>()}); break;
        case 0x0e:
        case 0x0f: stack[n++] = in.take<std::uint64_t>(); break;
        case 0x10: stack[n++] = in.uleb(); break;
        case 0x11: stack[n++] = static_cast<std::uint64_t>(in.sleb()); break;
        case 0x12:
          stack[n] = stack[n - 1];
          ++n;
          break;  // dup
        case 0x1a:
          --n;
          stack[n - 1] &= stack[n];
          break;
        case 0x1c:
          --n;
          stack[n - 1] -= stack[n];
          break;
        case 0x1e:
          --n;
          stack[n - 1] *= stack[n];
          break;
        case 0x21:
          --n;
          stack[n - 1] |= stack[n];
          break;
        case 0x22:
          --n;
          stack[n - 1] += stack[n];
          break;
        case 0x23: stack[n - 1] += in.uleb(); break;  // plus_uconst
        case 0x24:
          --n;
          stack[n - 1] <<= (stack[n] & 63);
          break;
        case 0x2a:
          --n;
          stack[n - 1] = static_cast<std::int64_t>(stack[n - 1]) >= static_cast<std::int64_t>(stack[n]);
          break;
        default: return false;
      }
    }
  }
  if (n < 1) return false;
  result = stack[n - 1];
  return true;
}

// Runs the instructions in [at, end) as far as they concern `target`.
bool run(const std::uint8_t* at, const std::uint8_t* end, std::uint64_t location, std::uint64_t target, Program& p,
         Row& row) {
  Reader in(at);
  const auto set = [&row](std::uint64_t r, Rule rule) {
    if (r < Frame::kRegisters) row.rules[r] = rule;
  };
  const auto restore = [&](std::uint64_t r) {
    if (r < Frame::kRegisters) row.rules[r] = p.initial.rules[r];
  };
  while (in.at() < end) {
    const auto op = in.take<std::uint8_t>();
    const std::uint64_t low = op & 0x3f;
    std::uint64_t r = 0;
    switch (op & 0xc0) {
      case 0x40: location += low * p.code_factor; break;
      case 0x80: set(low, {Rule::kAtOffset, static_cast<std::int64_t>(in.uleb()) * p.data_factor}); continue;
      case 0xc0: restore(low); continue;
      default:
        switch (op) {
          case 0x00: continue;
          case 0x01:  // set_loc: not written by compilers of this machine
            return false;
          case 0x02: location += in.take<std::uint8_t>() * p.code_factor; break;
          case 0x03: location += in.take<std::uint16_t>() * p.code_factor; break;
          case 0x04: location += in.take<std::uint32_t>() * p.code_factor; break;
          case 0x05:
            r = in.uleb();
            set(r, {Rule::kAtOffset, static_cast<std::int64_t>(in.uleb()) * p.data_factor});
            continue;
          case 0x06: restore(in.uleb()); continue;
          case 0x07: set(in.uleb(), {Rule::kUndefined}); continue;
          case 0x08: set(in.uleb(), {Rule::kSame}); continue;
          case 0x09:
            r = in.uleb();
            set(r, {Rule::kRegister, static_cast<std::int64_t>(in.uleb())});
            continue;
          case 0x0a:
            if (p.remembered_count == kMaxRemembered) return false;
            p.remembered[p.remembered_count++] = row;
            continue;
          case 0x0b:
            if (p.remembered_count == 0) return false;
            row = p.remembered[--p.remembered_count];
            continue;
          case 0x0c:
            row.cfa_register = in.uleb();
            row.cfa_offset = static_cast<std::int64_t>(in.uleb());
            row.cfa_expression = nullptr;
            continue;
          case 0x0d:
            row.cfa_register = in.uleb();
            row.cfa_expression = nullptr;
            continue;
          case 0x0e: row.cfa_offset = static_cast<std::int64_t>(in.uleb()); continue;
          case 0x0f:
            row.cfa_expression = in.at();
            in.skip(in.uleb());
            continue;
          case 0x10:
          case 0x16:
            r = in.uleb();
            set(r, {op == 0x10 ? Rule::kAtExpression : Rule::kIsExpression, 0, in.at()});
            in.skip(in.uleb());
            continue;
          case 0x11:
            r = in.uleb();
            set(r, {Rule::kAtOffset, in.sleb() * p.data_factor});
            continue;
          case 0x12:
            row.cfa_register = in.uleb();
            row.cfa_offset = in.sleb() * p.data_factor;
            row.cfa_expression = nullptr;
            continue;
          case 0x13: row.cfa_offset = in.sleb() * p.data_factor; continue;
          case 0x14:
            r = in.uleb();
            set(r, {Rule::kIsOffset, static_cast<std::int64_t>(in.uleb()) * p.data_factor});
            continue;
          case 0x15:
            r = in.uleb();
            set(r, {Rule::kIsOffset, in.sleb() * p.data_factor});
            continue;
          case 0x2e: in.uleb(); continue;  // GNU_args_size
          default: return false;
        }
    }
    if (location > target) return true;
  }
  return true;
}

// The rules in force at `target`.
bool find_row(std::uint64_t target, Row& row) {
  dwarf_eh_bases bases{};
  const auto* const fde = static_cast<const std::uint8_t*>(
      _Unwind_Find_FDE(reinterpret_cast<void*>(target), &bases));  // NOLINT: an address of code, or none
  if (!fde) return false;
  Reader in(fde);
  const auto fde_bytes = in.take<std::uint32_t>();
  if (fde_bytes == 0 || fde_bytes == 0xffffffff) return false;
  const std::uint8_t* const fde_end = in.at() + fde_bytes;
  const std::uint8_t* const cie_field = in.at();
  const std::uint8_t* const cie = cie_field - in.take<std::int32_t>();
  Reader c(cie);
  const auto cie_bytes = c.take<std::uint32_t>();
  const std::uint8_t* const cie_end = c.at() + cie_bytes;
  c.skip(4);
  const auto version = c.take<std::uint8_t>();
  const char* const augmentation = reinterpret_cast<const char*>(c.at());
  c.skip(std::strlen(augmentation) + 1);
  Program p;
  p.code_factor = c.uleb();
  p.data_factor = c.sleb();
  if (version == 1)
    c.take<std::uint8_t>();
  else
    c.uleb();
  const bool sized = augmentation[0] == 'z';
  if (sized) {
    const std::uint64_t bytes = c.uleb();
    const std::uint8_t* const after = c.at() + bytes;
    for (const char* a = augmentation + 1; *a; ++a) {
      if (*a == 'R') p.pointer_encoding = c.take<std::uint8_t>();
      if (*a == 'L') c.take<std::uint8_t>();
      if (*a == 'P' && !c.skip_encoded(c.take<std::uint8_t>())) return false;
    }
    c.skip(static_cast<std::uint64_t>(after - c.at()));
  } else if (augmentation[0] != '\0') {
    return false;
  }
  if (!in.skip_encoded(p.pointer_encoding & 0x0f) || !in.skip_encoded(p.pointer_encoding & 0x0f)) return false;
  if (sized) {
    const std::uint64_t bytes = in.uleb();
    in.skip(bytes);
  }
  const auto begin = reinterpret_cast<std::uint64_t>(bases.func);
  Row start;
  if (!run(c.at(), cie_end, begin, UINT64_MAX, p, start)) return false;
  p.initial = start;
  row = start;
  return run(in.at(), fde_end, begin, target, p, row);
}

// Code without tables: the chain of frame pointers, if it looks like one.
bool step_by_frame_pointer(Frame& frame, StackMemory& memory) {
  const std::uint64_t rbp = frame.registers[Frame::kRbp];
  constexpr std::uint64_t kMaxFrameBytes = 1 << 20;
  std::uint64_t words[2];
  if (rbp < frame.sp() || rbp - frame.sp() > kMaxFrameBytes || rbp % 8 != 0) return false;
  if (!memory.read(rbp, words, sizeof words) || words[1] == 0) return false;
  frame.registers[Frame::kRbp] = words[0];
  frame.registers[Frame::kRsp] = rbp + 16;
  frame.registers[Frame::kPc] = words[1];
  frame.exact = false;
  return true;
}

// The kernel's frame around a signal handler: known by the code that the handler returns to.
bool is_signal_return(std::uint64_t pc) {
  static constexpr std::uint8_t kCode[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};  // mov $15, %rax; syscall
  dwarf_eh_bases bases{};
  // Ours lies in the program's code; the C library's has a table.
  const bool ours = pc >= reinterpret_cast<std::uint64_t>(ayt_dispatch_begin) &&
                    pc < reinterpret_cast<std::uint64_t>(ayt_dispatch_end);
  if (!ours && !_Unwind_Find_FDE(reinterpret_cast<void*>(pc), &bases)) return false;  // NOLINT
  return std::memcmp(reinterpret_cast<const void*>(pc), kCode, sizeof kCode) == 0;    // NOLINT
}

bool step(Frame& frame, StackMemory& memory) {
  if (is_signal_return(frame.pc())) return frame_of_signal(frame.sp(), memory, frame);
  Row row;
  if (!find_row(frame.exact ? frame.pc() : frame.pc() - 1, row)) return step_by_frame_pointer(frame, memory);
  if (row.rules[Frame::kPc].kind == Rule::kUndefined) return false;
  std::uint64_t cfa = 0;
  if (row.cfa_expression) {
    if (!evaluate(row.cfa_expression, frame, memory, false, 0, cfa)) return false;
  } else {
    if (row.cfa_register >= Frame::kRegisters) return false;
    cfa = frame.registers[row.cfa_register] + static_cast<std::uint64_t>(row.cfa_offset);
  }
  if (cfa <= frame.sp()) return false;
  Frame next = frame;
  next.exact = false;
  next.registers[Frame::kRsp] = cfa;
  for (int i = 0; i < Frame::kRegisters; ++i) {
    const Rule& rule = row.rules[i];
    std::uint64_t address = cfa + static_cast<std::uint64_t>(rule.value);
    switch (rule.kind) {
      case Rule::kSame:
      case Rule::kUndefined: break;
      case Rule::kIsOffset: next.registers[i] = address; break;
      case Rule::kRegister:
        if (rule.value < 0 || rule.value >= Frame::kRegisters) return false;
        next.registers[i] = frame.registers[rule.value];
        break;
      case Rule::kIsExpression:
        if (!evaluate(rule.expression, frame, memory, true, cfa, next.registers[i])) return false;
        break;
      case Rule::kAtExpression:
        if (!evaluate(rule.expression, frame, memory, true, cfa, address)) return false;
        [[fallthrough]];
      case Rule::kAtOffset:
        if (!memory.read(address, &next.registers[i], 8)) return false;
        break;
    }
  }
  if (next.pc() == 0) return false;
  frame = next;
  return true;
}

}  // namespace

bool frame_of_saved(std::uint64_t sp, StackMemory& memory, Frame& frame) {
  std::uint64_t words[7];  // r15 r14 r13 r12 rbx rbp return address (src/ult/arch)
  if (!memory.read(sp, words, sizeof words)) return false;
  frame = Frame{};
  for (int i = 0; i < 4; ++i) frame.registers[Frame::kR12 + i] = words[3 - i];
  frame.registers[Frame::kRbx] = words[4];
  frame.registers[Frame::kRbp] = words[5];
  frame.registers[Frame::kPc] = words[6];
  frame.registers[Frame::kRsp] = sp + sizeof words;
  return frame.pc() != 0;
}

bool frame_of_signal(std::uint64_t context, StackMemory& memory, Frame& frame) {
  gregset_t r;
  if (!memory.read(context + offsetof(ucontext_t, uc_mcontext), &r, sizeof r)) return false;
  frame = Frame{};
  constexpr int kOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                            REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (int i = 0; i < Frame::kRegisters; ++i) frame.registers[i] = static_cast<std::uint64_t>(r[kOrder[i]]);
  frame.exact = true;
  return frame.pc() != 0;
}

std::size_t walk(Frame& frame, StackMemory& memory, std::span<std::uint64_t> addresses) {
  std::size_t n = 0;
  while (n < addresses.size()) {
    addresses[n++] = frame.exact || is_signal_return(frame.pc()) ? frame.pc() : frame.pc() - 1;
    if (!step(frame, memory)) break;
  }
  return n;
}

}  // namespace ayatori::tasks
