package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// header is what make bench-docs and go test say first.
const header = `date: 2030-01-02
toolchain: go1.99
load: 0.25
how: COUNT=2 BENCHTIME=1s
goos: linux
goarch: amd64
cpu: A Processor
`

const some = header + `BenchmarkFail3/minimal-2 1 100 ns/op 0 B/op 0 allocs/op
BenchmarkFail3/backoff-2 1 110 ns/op 0 B/op 0 allocs/op
BenchmarkFail3/eapache+aws-2 1 500 ns/op 64 B/op 3 allocs/op
ok  	bench	10.0s
ok  	bench	30.0s
`

const someNotes = `It is measured with care.

## Fail3

A call that fails.

Why: it is late.
`

// made is the page of the output and the notes, with the bar of Fail3 (1.2) as
// the only one.
func made(t *testing.T, output, text string) *page {
	t.Helper()
	r, err := read(strings.NewReader(output))
	require.NoError(t, err)
	n, err := parseNotes(text)
	require.NoError(t, err)
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	old := bars
	bars = map[string][]bar{"Fail3": old["Fail3"]}
	t.Cleanup(func() { bars = old })
	return &page{results: r, notes: n, versions: requirements(string(mod))}
}

func TestThePage(t *testing.T) {
	p := made(t, strings.Replace(some, "A Processor", "A Processor  ", 1), someNotes)
	require.Empty(t, p.problems())
	got := p.markdown()
	for _, want := range []string{
		"| [Fail3](#fail3) | 110 ns, 0 allocs | 100 ns | 1.10 | 1.2 | eapache+aws, 500 ns | held, ahead |\n",
		"| [a call that fails three times first](#fail3) | 110 ns, 0 allocs | 100 ns | 1.10 | eapache+aws, 500 ns | held, ahead |\n",
		"- **Missed** are none.\n- **Behind** means more than 1.1 times the best peer: none.\n",
		"It is measured with care.",
		"2030-01-02, 2 processors of A Processor, linux/amd64, go1.99, load average 0.25 before. The least of 1 rounds of 40 s, by",
		"make bench-docs COUNT=2 BENCHTIME=1s\n",
		"| avast | github.com/avast/retry-go/v5 | v5.",
		"\n## Fail3\n\nA call that fails.\n\n|  | ns/op | x minimal | x peer | bar | B/op | allocs/op |\n|---|---|---|---|---|---|---|\n" +
			"| minimal | 100 | 1.00 | 0.20 |  | 0 | 0 |\n| backoff | 110 | 1.10 | 0.22 | <= 1.2 | 0 | 0 |\n",
	} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, got, "it is late", "an excuse that is not needed")
}

func TestAMissedBarIsExplained(t *testing.T) {
	slow := strings.Replace(some, "110 ns/op", "130 ns/op", 1)
	p := made(t, slow, someNotes)
	require.Empty(t, p.problems())
	require.Contains(t, p.markdown(), "\nWhy: it is late.\n")
	require.Contains(t, p.markdown(), "| eapache+aws, 500 ns | **missed**, ahead |")
	require.Contains(t, p.markdown(), "- **Missed** are [Fail3](#fail3) (1.30 x floor, bar 1.2).\n")

	p = made(t, slow, strings.Replace(someNotes, why, "", 1))
	require.Equal(t, []string{`Fail3 misses its bar of 1.2, and its note has no paragraph "Why: ..."`}, p.problems())
}

func TestAPeerThatIsAheadIsExplained(t *testing.T) {
	beaten := strings.Replace(some, "500 ns/op", "99 ns/op", 1)
	p := made(t, beaten, someNotes)
	require.Empty(t, p.problems())
	require.Contains(t, p.markdown(), "| eapache+aws, 99 ns | held, **behind** |")
	require.Contains(t, p.markdown(), "best peer: [Fail3](#fail3) (1.11 x eapache+aws).\n")

	p = made(t, beaten, strings.Replace(someNotes, why, "", 1))
	require.Equal(t, []string{`Fail3 is behind eapache+aws, and its note has no paragraph "Why: ..."`}, p.problems())

	for _, near := range []string{"101", "115"} { // as fast, within a tenth
		p = made(t, strings.Replace(some, "500 ns/op", near+" ns/op", 1), strings.Replace(someNotes, why, "", 1))
		require.Empty(t, p.problems())
		require.Contains(t, p.markdown(), "| eapache+aws, "+near+" ns | held, level |")
	}
}

func TestWhatHasNoBarIsExplainedWhereItIsSlower(t *testing.T) {
	const text = someNotes + "\n## Fail9\n\nAnother one.\n\nWhy: it does more.\n"
	const lines = some + "BenchmarkFail9/minimal-2 1 100 ns/op\nBenchmarkFail9/backoff-2 1 "
	require.Contains(t, made(t, lines+"120 ns/op\n", text).markdown(), "it does more")
	require.NotContains(t, made(t, lines+"109 ns/op\n", text).markdown(), "it does more")
}

func TestNotesAndScenariosAreTheSame(t *testing.T) {
	p := made(t, some, someNotes+"\n## Fail4\n\nA call that was never made.\n")
	require.Equal(t, []string{"Fail4 has a note or a bar, but did not run"}, p.problems())

	p = made(t, some+"BenchmarkFail5/minimal-2 1 1 ns/op\n", someNotes)
	require.Equal(t, []string{"Fail5 has no note that says what it is"}, p.problems())

	_, err := parseNotes(someNotes + "\n## Fail3\n\nAgain.\n")
	require.ErrorContains(t, err, "two sections Fail3")
}

func TestABarIsMeasured(t *testing.T) {
	p := made(t, strings.Replace(some, "BenchmarkFail3/minimal", "BenchmarkFail3/minimum", 1), someNotes)
	require.Equal(t, []string{"Fail3 has a bar of 1.2, and nothing to measure it by", "Fail3/minimum-2 is not a name of a peer"}[:1], p.problems()[:1])

	p = made(t, header, "how")
	p.scenarios = nil
	require.Equal(t, []string{"Fail3 has a note or a bar, but did not run"}, p.problems())
}

func TestThePageSaysWhereItWasMade(t *testing.T) {
	p := made(t, strings.Replace(some, "cpu: A Processor\n", "", 1), someNotes)
	require.Equal(t, []string{`the output has no line "cpu: ..."`}, p.problems())
}

func TestPeersAreKnown(t *testing.T) {
	p := made(t, strings.Replace(some, "eapache+aws", "eapache+own", 1), someNotes)
	require.Equal(t, []string{"Fail3/eapache+own is not a name of a peer"}, p.problems())
	delete(p.versions, peers[0].module)
	require.Contains(t, p.problems(), "go.mod does not require "+peers[0].module)
}

func TestAPageThatIsRefusedIsNotWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	t.Chdir("..") // where the program runs
	require.ErrorContains(t, run(strings.NewReader(some), &strings.Builder{}, file), "is left as it was")
	require.NoFileExists(t, file)
}

// The page in docs has the scenarios of the notes, and every bar has its note.
// So a scenario that is added or renamed is not forgotten there.
func TestThePageIsThatOfTheNotes(t *testing.T) {
	n, err := parseNotes(words)
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(bars)) {
		require.Contains(t, n.names, name)
	}
	text, err := os.ReadFile("../../../../docs/benchmarks.md")
	require.NoError(t, err)
	for _, name := range n.names {
		require.NotEmpty(t, n.of[name].what, name)
		require.Contains(t, string(text), "\n## "+name+"\n\n"+n.of[name].what+"\n\n|")
	}
	require.Contains(t, string(text), "\n"+n.how+"\n")
	require.Len(t, regexp.MustCompile(`(?m)^## `).FindAllString(string(text), -1), len(n.names)+3)
}

func TestAMissedBarIsNamedByWhatItWasMeasuredBy(t *testing.T) {
	s := &scenario{}
	require.Equal(t, "allocations", missedBy(s, verdict{bar: bar{times: 2}, missed: "allocs"}))
	require.Equal(t, "bar +15 over backoff-unobserved",
		missedBy(s, verdict{bar: bar{plus: 15, over: "backoff-unobserved"}, missed: "ns/op"}))
	require.Equal(t, "bar 1 x Delay", missedBy(s, verdict{bar: scales("Delay"), missed: "ns/op"}))
}

// The first page of the page in docs has figures of the table of all scenarios,
// and names all that missed a bar or are behind.
func TestTheFirstPageSaysWhatTheTableSays(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/benchmarks.md")
	require.NoError(t, err)
	page, all, found := strings.Cut(string(text), "\n## All scenarios\n")
	require.True(t, found)
	require.Contains(t, page, intro)
	for _, f := range first {
		same := 0
		for _, cells := range cellsOf(all, f.scenario) {
			if strings.Contains(page, "| ["+f.words+"](#"+anchor(f.scenario)+") | "+
				strings.Join([]string{cells[1], cells[2], cells[3], cells[5], cells[6]}, " | ")+" |\n") {
				same++
			}
		}
		require.Equal(t, 1, same, f.scenario)
	}
	missed, behind, found := strings.Cut(page, "\n- **Behind** means")
	require.True(t, found)
	_, missed, found = strings.Cut(missed, "\n- **Missed** are")
	require.True(t, found)
	n, err := parseNotes(words)
	require.NoError(t, err)
	for _, name := range n.names {
		rows := fmt.Sprint(cellsOf(all, name))
		item := "[" + name + "](#" + anchor(name) + ") ("
		require.Equal(t, strings.Contains(rows, "**missed**"), strings.Contains(missed, item), name)
		require.Equal(t, strings.Contains(rows, "**behind**"), strings.Contains(behind, item), name)
	}
}

// cellsOf returns the rows of a scenario in the table of all.
func cellsOf(table, scenario string) (rows [][]string) {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ["+scenario+"](") {
			rows = append(rows, strings.Split(strings.Trim(line, "| \n"), " | "))
		}
	}
	return rows
}
