package main

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const here = "../../.."

// All who build a program with the library download its module, with the tests: a half of this. The
// documents and their pictures are in another module.
func TestTheLibraryIsSmallToDownload(t *testing.T) {
	packed, w := io.Pipe()
	go func() {
		w.CloseWithError(zip.CreateFromDir(w, module.Version{Path: home, Version: "v0.1.0"}, here))
	}()
	size, err := io.Copy(io.Discard, packed)
	require.NoError(t, err)
	require.LessOrEqual(t, size, int64(1_250_000), "bytes")
}

func TestTheNextReleaseHasNotes(t *testing.T) {
	tag, err := announced(here)
	require.NoError(t, err)
	if said, err := notes(here, tag); err == nil {
		require.NotEmpty(t, said, tag)
	}
}

func TestUpdatesOfEveryModuleAreAskedFor(t *testing.T) {
	var settings struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	text, err := os.ReadFile(here + "/.github/dependabot.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &settings))
	var patterns []string
	for _, u := range settings.Updates {
		if u.Ecosystem == "gomod" {
			patterns = append(patterns, u.Directories...)
		}
	}
	all, err := modules(here)
	require.NoError(t, err)
	for _, m := range all {
		if m.prefix == "docs" {
			continue // it has no Go
		}
		var found []string
		for _, pattern := range patterns {
			if ok, _ := path.Match(pattern, path.Join("/", m.prefix)); ok {
				found = append(found, pattern)
			}
		}
		require.Len(t, found, 1, "entries of dependabot.yml for %s", m.path)
	}
}

// A tag of an action can be moved to other code; a commit cannot.
func TestActionsArePinnedToACommit(t *testing.T) {
	workflows, err := filepath.Glob(here + "/.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, workflows)
	uses := regexp.MustCompile(`(?m)\buses: (.*)$`)
	pinned := regexp.MustCompile(`^([a-z/-]+)@[0-9a-f]{40} # v[0-9.]+$`)
	seen := map[string]string{}
	for _, name := range workflows {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, action := range uses.FindAllStringSubmatch(string(text), -1) {
			parts := pinned.FindStringSubmatch(action[1])
			require.NotNil(t, parts, "%s uses %s", name, action[1])
			if before := seen[parts[1]]; before != "" {
				require.Equal(t, before, action[1], name)
			}
			seen[parts[1]] = action[1]
		}
	}
}
