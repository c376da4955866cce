package guards

import (
	"os"
	"path/filepath"
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
	want, err := os.ReadFile(filepath.Join(dir, "guards.md"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(docs, "guards.md"))
	require.NoError(t, err)
	require.True(t, string(want) == string(got), "docs/guards.md is not made of what is kept: run make guards-page")
}
