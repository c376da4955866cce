package guards

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

var (
	chosen = flag.String("clients", "", "run these clients, with commas between them, or all; by default those of the bars")
	update = flag.Bool("update", false, "keep the figures, and write docs/guards.md")
	names  = flag.Bool("list-worlds", false, "run nothing, and print the names of all worlds")
)

// live runs a client in a world, as often as the world asks, and returns the means.
func live(t *testing.T, w world, c client) figures {
	seeds := max(1, w.seeds)
	mean := figures{}
	for seed := range seeds {
		synctest.Test(t, func(*testing.T) {
			for name, v := range w.run(c, uint64(seed+1)) {
				mean[name] += v / float64(seeds)
			}
		})
	}
	return mean
}

// wanted reports whether a client is to run in a world.
func wanted(w world, c client) bool {
	if *chosen == "all" && !w.few {
		return true
	}
	if *chosen != "all" && *chosen != "" {
		return slices.Contains(strings.Split(*chosen, ","), c.name)
	}
	return slices.ContainsFunc(w.bars, func(b bar) bool { return slices.Contains(b.needs(), c.name) })
}

// asked reports whether -run names tests.
func asked() bool { return flag.Lookup("test.run").Value.String() != "" }

func TestWorlds(t *testing.T) {
	kept, err := loadBoard(keptAt)
	require.NoError(t, err)
	for group, worlds := range groups() {
		t.Run(group, func(t *testing.T) {
			for _, w := range worlds {
				switch {
				case *names:
					fmt.Println(group + "/" + w.name)
				case w.quick || nightly.On || asked():
					t.Run(w.name, func(t *testing.T) {
						kept.add(w, hold(t, w))
						if *update {
							require.NoError(t, kept.keep(keptAt))
						}
					})
				}
			}
		})
	}
}

// hold lets the clients live in a world, checks its bars, and returns the figures.
func hold(t *testing.T, w world) results {
	r := results{}
	for _, c := range clients {
		if wanted(w, c) {
			r[c.name] = live(t, w, c)
			t.Logf("%-14s%v", c.name, r[c.name])
		}
	}
	for _, b := range w.bars {
		if !b.known(r) {
			continue // as -clients says
		}
		if err := b.check(r); err != nil {
			t.Error(err)
		}
	}
	return r
}
