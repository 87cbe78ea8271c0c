// libedit reads its keys from us, so that signals, UTF-8 and pasted texts are handled where the rest of the program
// handles them, and its own signal handlers are not needed: they send every signal to the whole process group again.
#include "examples/cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <new>
#include <string_view>

#include "examples/cli/failure.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/printable.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

constexpr size_t kMaxCharacters = 1 << 20;   // of a line: libedit keeps it five times over, four bytes a character
constexpr int kMaxHistory = 1000;
constexpr wchar_t kReplacement = 0xfffd;
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

std::string as_utf8(std::wstring_view text) {
  std::string out;
  for (const wchar_t character : text) append_utf8(static_cast<uint32_t>(character), &out);
  return out;
}

// CR LF and LF CR (a terminal that is being edited on swaps the two) and each of them alone end a line.
std::wstring with_line_feeds(std::wstring_view text) {
  std::wstring out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool ends = text[i] == L'\r' || text[i] == L'\n';
    if (ends && i + 1 < text.size() && text[i + 1] != text[i] && (text[i + 1] == L'\r' || text[i + 1] == L'\n')) ++i;
    out += ends ? L'\n' : text[i] == 0 ? kReplacement : text[i];
  }
  return out;
}

// No exception goes through libedit, which is C.
template <class Result, class Call>
Result guarded(Result otherwise, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return otherwise;
  }
}

class Editor : public LineEditor {
 public:
  ~Editor() override {
    if (edit_ != nullptr) el_end(edit_);
    if (history_ != nullptr) history_end(history_);
    if (screen_ != nullptr) std::fclose(screen_);
  }

  bool open(const std::vector<std::string>& lines) {
    // What libedit draws is UTF-8, as everything this program writes, whatever the user's locale.
    if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
    const int descriptor = dup(2);
    screen_ = descriptor < 0 ? nullptr : fdopen(descriptor, "w");   // buffered, unlike stderr
    history_ = history_init();
    edit_ = screen_ == nullptr ? nullptr : el_init("mote", stdin, screen_, screen_);
    if (edit_ == nullptr || history_ == nullptr) return false;
    HistEvent event;
    history(history_, &event, H_SETSIZE, kMaxHistory);
    for (const std::string& line : lines) remember(line);
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_PROMPT, +[](EditLine*) { return const_cast<char*>("> "); });
    el_set(edit_, EL_HIST, history, history_);
    el_set(
        edit_, EL_GETCFN,
        +[](EditLine* edit, wchar_t* to) { return guarded(-1, [&] { return of(edit).read_key(to); }); });
    el_set(
        edit_, EL_ADDFN, "mote-paste", "insert a pasted text", +[](EditLine* edit, int) {
          return guarded<unsigned char>(CC_REFRESH_BEEP, [&] { return of(edit).insert_pasted(); });
        });
    el_source(edit_, nullptr);   // ~/.editrc: the user's own keys
    const char* const keys[][2] = {{"\\e[200~", "mote-paste"},
                                   {"^R", "em-inc-search-prev"},
                                   {"\\e[3~", "ed-delete-next-char"},
                                   {"\\e[1;5C", "em-next-word"},
                                   {"\\e[1;5D", "ed-prev-word"}};
    for (const auto& key : keys) el_set(edit_, EL_BIND, key[0], key[1], nullptr);
    return true;
  }

  std::optional<Line> next() override {
    const AtPrompt waiting;
    typed_.clear();
    interrupted_ = false;
    el_set(edit_, EL_PREP_TERM, 1);   // before anything invites to type: a Ctrl-D of the plain mode would arrive as NUL
    write_fully(2, "\x1b[?2004h");
    int count = 0;
    const wchar_t* text = el_wgets(edit_, &count);
    const int code = errno;
    write_fully(2, "\x1b[?2004l");
    if (interrupted_) {
      write_fully(2, "^C\n");
      pending_.clear();
      used_ = 0;
      el_reset(edit_);
      return Line{as_utf8(typed_), false, true};
    }
    if (text == nullptr && count == 0) return std::nullopt;
    if (text == nullptr) throw Failure{kFailed, std::string("standard input cannot be read: ") + std::strerror(code)};
    std::wstring_view line(text, static_cast<size_t>(count));
    if (!line.empty() && line.back() == L'\n') line.remove_suffix(1);
    return Line{as_utf8(line)};
  }

  void remember(const std::string& text) override {
    HistEvent event;
    history(history_, &event, H_ENTER, text.c_str());
  }

 private:
  static Editor& of(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }

  // The next character of standard input: 1, 0 at the end, -1 for an error.
  int read_key(wchar_t* to) {
    while (true) {
      const std::string_view rest = std::string_view(pending_).substr(used_);
      if (!rest.empty() && (ended_ || !is_unfinished(rest))) {
        const Character character = first_character(rest);
        used_ += character.bytes;
        if (character.code == 0) continue;   // libedit takes it for a key that is not set, such as "quote the next one"
        *to = static_cast<wchar_t>(character.code);
        return 1;
      }
      if (ended_) return 0;
      switch (wait_for_key()) {
        case Woken::by_interrupt: {
          interrupted_ = true;
          const LineInfoW* line = el_wline(edit_);
          typed_.assign(line->buffer, line->lastchar);
          errno = EINTR;
          return -1;
        }
        case Woken::by_terminal:
          draw_again();
          continue;
        case Woken::by_key:
          break;
      }
      char bytes[4096];
      const ssize_t got = read(0, bytes, sizeof bytes);
      if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
      if (got < 0) return -1;
      ended_ = got == 0;
      pending_.erase(0, used_);
      used_ = 0;
      pending_.append(bytes, static_cast<size_t>(got));
    }
  }

  // The terminal has another size, or has been somebody else's meanwhile.
  void draw_again() {
    el_set(edit_, EL_PREP_TERM, 0);
    el_set(edit_, EL_PREP_TERM, 1);
    write_fully(2, "\x1b[?2004h");
    el_resize(edit_);
    el_set(edit_, EL_REFRESH);
  }

  // What stands between the marks that a terminal puts around a pasted text.
  unsigned char insert_pasted() {
    std::wstring pasted;
    wchar_t character = 0;
    bool too_long = false;
    while (el_wgetc(edit_, &character) == 1) {
      pasted += character;
      if (pasted.ends_with(kPasteEnd)) {
        pasted.resize(pasted.size() - kPasteEnd.size());
        break;
      }
      if (pasted.size() > 2 * kMaxCharacters) {   // not kept to its end, but read to it
        too_long = true;
        pasted.erase(0, kMaxCharacters);
      }
    }
    pasted = with_line_feeds(pasted);
    const LineInfoW* line = el_wline(edit_);
    const auto there = static_cast<size_t>(line->lastchar - line->buffer);
    if (too_long || pasted.size() + there > kMaxCharacters) return CC_REFRESH_BEEP;
    if (!pasted.empty() && el_winsertstr(edit_, pasted.c_str()) != 0) return CC_REFRESH_BEEP;
    return CC_REFRESH;
  }

  const KeepTerminal keep_;
  FILE* screen_ = nullptr;
  History* history_ = nullptr;
  EditLine* edit_ = nullptr;
  std::string pending_;   // bytes read, of which used_ are used
  size_t used_ = 0;
  std::wstring typed_;   // what Ctrl-C has dropped
  bool ended_ = false, interrupted_ = false;
};

}   // namespace

std::string LineEditor::built_with() {
  return "libedit " + std::to_string(LIBEDIT_MAJOR) + "." + std::to_string(LIBEDIT_MINOR);
}

std::unique_ptr<LineEditor> LineEditor::open(const HistoryFile& history) {
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || *terminal == 0 || std::string_view(terminal) == "dumb") return nullptr;
  auto editor = std::make_unique<Editor>();
  if (!editor->open(history.read())) return nullptr;
  return editor;
}

}   // namespace cli
