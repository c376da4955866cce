package migrate

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// An edit replaces a part of a file by a text. In the text the names of packages that it imports
// are marked; see gen.
type edit struct {
	start, end int
	text       string
}

// packageMark is before the name of a package in a new text.
const packageMark = "\x01"

// gen formats a new text. In the format, § is before the names of packages, which an import may
// call otherwise.
func gen(format string, args ...any) string {
	return fmt.Sprintf(strings.ReplaceAll(format, "§", packageMark), args...)
}

// replace replaces what is between two positions.
func (f *file) replace(from, to token.Pos, text string) {
	f.edits = append(f.edits, edit{f.offset(from), f.offset(to), text})
}

// insert adds a text before a position.
func (f *file) insert(at token.Pos, text string) { f.replace(at, at, text) }

// removeStmt removes a statement, with its line if nothing else is on it.
func (f *file) removeStmt(s ast.Stmt) {
	start, end := f.offset(s.Pos()), f.offset(s.End())
	from := bytes.LastIndexByte(f.text[:start], '\n') + 1
	if rest := bytes.IndexByte(f.text[end:], '\n'); rest >= 0 &&
		len(bytes.TrimSpace(f.text[from:start])) == 0 && len(bytes.TrimSpace(f.text[end:end+rest])) == 0 {
		start, end = from, end+rest+1
	}
	f.edits = append(f.edits, edit{start, end, ""})
}

// commentAbove puts a comment on the line above a position, unless it is there.
func (f *file) commentAbove(pos token.Pos, comment string) {
	start := bytes.LastIndexByte(f.text[:f.offset(pos)], '\n') + 1
	above := bytes.TrimSpace(f.text[bytes.LastIndexByte(f.text[:max(start-1, 0)], '\n')+1 : start])
	if bytes.HasPrefix(above, []byte(notMigrated)) {
		return
	}
	e := edit{start, start, comment + "\n"}
	if !slices.Contains(f.edits, e) {
		f.edits = append(f.edits, e)
	}
}

const notMigrated = "// backoffvet: not migrated: "

// comment says at each site that stays why it does.
func (p *program) comment() {
	for _, s := range p.sites {
		if s.reason != "" {
			s.f.commentAbove(s.f.statement(s.node).Pos(), notMigrated+s.reason)
		}
	}
}

// gone reports whether an edit removes or replaces a position.
func (f *file) gone(pos token.Pos) bool {
	at := f.offset(pos)
	return slices.ContainsFunc(f.edits, func(e edit) bool { return e.start <= at && at < e.end })
}

// edited is the text with its edits. Of edits at one place those that insert come first, in their
// order. An edit within another one is lost, since the outer one knows the whole.
func (f *file) edited() string {
	edits := slices.Clone(f.edits)
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(min(a.end-a.start, 1), min(b.end-b.start, 1)), cmp.Compare(b.end, a.end))
	})
	var out strings.Builder
	at := 0
	for _, e := range edits {
		if e.start < at {
			continue
		}
		out.Write(f.text[at:e.start])
		out.WriteString(e.text)
		at = e.end
		if e.text == "" && f.blankAt(at) && (strings.HasSuffix(out.String(), "{\n") || strings.HasSuffix(out.String(), "\n\n")) {
			at++ // no blank line remains where a statement was
		}
	}
	out.Write(f.text[at:])
	return out.String()
}

// blankAt reports whether a line that begins at an offset is empty.
func (f *file) blankAt(offset int) bool {
	return offset > 0 && offset < len(f.text) && f.text[offset-1] == '\n' && f.text[offset] == '\n'
}
