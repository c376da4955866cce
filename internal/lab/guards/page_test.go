package guards

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	for _, name := range []string{"guards.md", "guards.svg"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "docs/%s is not made of what is kept: run make guards-page", name)
	}
}

func TestEveryWorldIsOnThePageWithEveryClient(t *testing.T) {
	p := pageOfKept(t)
	titles := map[string]bool{}
	for _, s := range sections {
		titles[s.group] = true
	}
	for group, worlds := range groups() {
		require.True(t, titles[group], group)
		for _, w := range worlds {
			for _, c := range shownClients() {
				require.True(t, w.few || p.board[w.key()][c.name] != nil, "%s: %s", w.key(), c.name)
			}
		}
	}
	for _, h := range highlights {
		require.Contains(t, p.board[h.world][ours], h.figure, h.world)
	}
}

func TestThePictureIsXML(t *testing.T) {
	for d := xml.NewDecoder(strings.NewReader(pageOfKept(t).picture())); ; {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
	}
}

// alike returns what all clients make alike of a world.
func alike(f figures) results {
	r := results{}
	for _, c := range clients {
		r[c.name] = f
	}
	return r
}

func TestTheTradesNameWhoIsAhead(t *testing.T) {
	key := "by chance/10 a second, 20 %"
	p := page{board: board{key: alike(figures{success: 90, could: 100, perCall: 1.1, slow: 3})}}
	require.NotContains(t, p.Behind(), "fail by chance")
	p.board[key][hashicorp] = figures{success: 99, could: 100, perCall: 1.25, slow: 1}
	p.board[key][patient] = figures{success: 97, could: 100, perCall: 1.2, slow: 9}
	require.Contains(t, p.Behind(), `in 1 of 20 worlds. Most in "10 a second, 20 %": go-retryablehttp has 99 %, `+
		"and the default client 90 % (patient: 97 %). They make 1.25 and 1.10 attempts per call.")
	p.board[key][unguarded] = p.board[key][hashicorp]
	require.Contains(t, p.Slower(), "3 s, and with go-retryablehttp 1 s.")
	require.Contains(t, p.Missed(), "by chance, 10 a second, 20 %: ours: success is 90")
}

func TestAJobThatWasNotDoneIsNotTheBest(t *testing.T) {
	h := highlight{figure: took, good: 5, fair: 8}
	done, dropped := figures{success: 100, took: 4.2}, figures{success: 40, took: 0.5}
	best := h.best(results{ours: done, none: dropped})
	require.Equal(t, 4.2, best)
	require.True(t, h.near(done, best))
	require.False(t, h.near(dropped, best))
	require.Equal(t, "4.2 s", h.shown(done))
	require.Equal(t, "0.5 s, 60 % fail", h.shown(dropped))
	require.Equal(t, "bad", h.mark(dropped))
}

// The fonts of a reader may be wider than those that the style asks for first.
func TestTheWordsOfThePictureFitTheirColumns(t *testing.T) {
	const wide = 6.4 // pixels, of a letter
	p := pageOfKept(t)
	for _, h := range highlights {
		require.LessOrEqual(t, wide*float64(len(h.brief)), float64(labels+barLeft-8), h.brief)
		for client, f := range p.board[h.world] {
			require.LessOrEqual(t, wide*float64(len(h.number(f))), column-3.0, "%s, %s", h.brief, client)
		}
	}
}
