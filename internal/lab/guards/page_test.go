package guards

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/lab/docpage"
)

// words is the text of the page.
//
//go:embed page.md.tmpl
var words string

// A page is what the words are about.
type page struct {
	board board
	mod   string // the text of a go.mod
}

// write writes the page to a directory.
func (p page) write(dir string) error {
	text, err := docpage.Fill(words, p, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "guards.md"), []byte(text), 0o666)
}

// A table is rows of Markdown.
type table struct{ strings.Builder }

// row adds a row.
func (t *table) row(cells ...string) { t.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// head adds the first row, which begins with some cells and goes on with the
// clients.
func (t *table) head(cells ...string) {
	for _, c := range clients {
		cells = append(cells, c.caption)
	}
	t.row(cells...)
	t.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

// Highlights is the first table.
func (p page) Highlights() string {
	var t table
	t.head("World", "could")
	for _, h := range highlights {
		r := p.board[h.world]
		best, possible := h.best(r), r[ours].print(could)
		if h.figure != success {
			possible = r[ours].print(ideal)
		}
		cells := []string{h.words, possible}
		for _, c := range clients {
			text := h.shown(r[c.name])
			if h.near(r[c.name], best) {
				text = "**" + text + "**"
			}
			cells = append(cells, text)
		}
		t.row(cells...)
	}
	return t.String()
}

// titles are the headings of tables of figures.
var titles = map[string]string{
	success: "Calls that succeed", perCall: "Attempts per call", median: "Wait of the median call that succeeds",
	slow: "Wait of 99 of 100 calls that succeed, at most", refusals: "Requests that the limit refuses",
	took: "Until the last call has ended", whileDown: "Attempts while it is down", worstQueue: "The server's queue, at most",
	lost: "Lost", recovery: "Recovery", meanwhile: "Meanwhile", leaf: "Attempts at the last service, per call",
	least: "Share of the program that got least",
}

// Sections are the details.
func (p page) Sections() string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", s.title, s.about)
		for _, figure := range s.figures {
			fmt.Fprintf(&b, "%s\n", p.details(s.group, figure))
		}
	}
	return b.String()
}

// details returns the table of a figure in a group.
func (p page) details(group, figure string) string {
	var t table
	switch figure {
	case success:
		t.head(titles[figure], "could")
	case took:
		t.head(titles[figure], "ideal")
	default:
		t.head(titles[figure])
	}
	for _, w := range worldsOf(group) {
		r := p.board[w.key()]
		if _, ok := r[ours][figure]; !ok {
			continue
		}
		cells := []string{w.name}
		switch figure {
		case success:
			cells = append(cells, r[ours].print(could))
		case took:
			cells = append(cells, r[ours].print(ideal))
		}
		for _, c := range clients {
			cells = append(cells, r[c.name].print(figure))
		}
		t.row(cells...)
	}
	return t.String()
}

// Clients is the table of the clients.
func (p page) Clients() string {
	var t table
	t.row("Client", "Version", "What it is")
	t.WriteString("|---|---|---|\n")
	for _, c := range clients {
		t.row(c.caption, docpage.Version(p.mod, c.module), c.about)
	}
	return t.String()
}

// docs is where the page is.
const docs = "../../../docs"

// pageOfKept returns the page of the figures that are kept.
func pageOfKept(t *testing.T) page {
	b, err := loadBoard(keptAt)
	require.NoError(t, err)
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	return page{board: b, mod: string(mod)}
}

func TestThePageIsMadeOfTheFiguresThatAreKept(t *testing.T) {
	p := pageOfKept(t)
	if *update {
		require.NoError(t, p.write(docs))
	}
	dir := t.TempDir()
	require.NoError(t, p.write(dir))
	want, err := os.ReadFile(filepath.Join(dir, "guards.md"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(docs, "guards.md"))
	require.NoError(t, err)
	require.True(t, string(want) == string(got), "docs/guards.md is not made of what is kept: run make guards-page")
}
