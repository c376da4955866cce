package main

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
)

// What the machine says about git does not count, and commits have an author.
func TestMain(m *testing.M) {
	os.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		os.Setenv("GIT_"+who+"_NAME", "Test")
		os.Setenv("GIT_"+who+"_EMAIL", "test@example.com")
	}
	os.Exit(m.Run())
}

// repository makes a small one with the layout of this one, and some files changed.
func repository(t *testing.T, changed map[string]string) string {
	root := t.TempDir()
	save(t, root, small)
	save(t, root, changed)
	run(t, root, "init", "--quiet", "--initial-branch=main")
	commit(t, root)
	return root
}

func save(t *testing.T, root string, files map[string]string) {
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

func run(t *testing.T, root string, args ...string) string {
	out, err := git(root, args...)
	require.NoError(t, err)
	return out
}

func commit(t *testing.T, root string) {
	run(t, root, "add", "--all")
	run(t, root, "commit", "--quiet", "--message", "Change")
}

const unreleased = "# Changelog\n\n## contrib/one/v0.1.1 (unreleased)\n\nMends one.\n\n## v0.1.0 (unreleased)\n\nThe first. See [the guide](docs/guide.md#now) and [Go](https://go.dev).\n\n### Names\n\nAll.\n"

var small = map[string]string{
	"CHANGELOG.md":           unreleased,
	"go.mod":                 "module " + home + "\n",
	"go.sum":                 "",
	"backoff.go":             "package backoff\n\nconst Old = 1\n",
	"sub/sub.go":             "// Package sub.\npackage sub\n",
	"internal/deep/deep.go":  "package deep\n",
	"internal/tool/go.mod":   "module " + home + "/internal/tool\n\nrequire " + home + " v0.0.0\n\nreplace " + home + " => ../..\n",
	"internal/tool/main.go":  "package main\n",
	"contrib/one/go.mod":     "module " + home + "/contrib/one\n\nrequire " + home + " v0.0.0\n\nreplace " + home + " => ../..\n",
	"contrib/one/go.sum":     "",
	"contrib/one/one.go":     "package one\n\nimport backoff \"" + home + "\"\n\nconst One = backoff.Old\n",
	"contrib/test/go.mod":    "module " + home + "/contrib/test\n",
	"contrib/test/a_test.go": "package test\n",
	"cmd/tool/go.sum":        "",
	"cmd/tool/go.mod": "module " + home + "/cmd/tool\n\nrequire (\n\t" + home + " v0.0.0\n\t" + home + "/contrib/one v0.0.0\n)\n\n" +
		"replace " + home + " => ../..\n\nreplace " + home + "/contrib/one => ../../contrib/one\n",
	"cmd/tool/main.go": "package main\n\nimport \"" + home + "/contrib/one\"\n\nfunc main() { println(\"usage\", one.One) }\n",
}

func TestAReleaseCanBeUsedFromItsTags(t *testing.T) {
	t.Parallel()
	root, dir := repository(t, nil), filepath.Join(t.TempDir(), "release")
	require.NoError(t, release(root, "v0.1.0", dir))
	require.Equal(t, "cmd/tool/v0.1.0\ncontrib/one/v0.1.0\nv0.1.0", run(t, dir, "tag"))

	tagged := run(t, dir, "show", "cmd/tool/v0.1.0:cmd/tool/go.mod")
	require.Contains(t, tagged, home+" v0.1.0\n")
	require.Contains(t, tagged, home+"/contrib/one v0.1.0\n")
	require.NotContains(t, tagged, "replace")
	require.Contains(t, run(t, dir, "show", "cmd/tool/v0.1.0:CHANGELOG.md"), "## v0.1.0 ("+time.Now().UTC().Format("2006"))

	for _, name := range []string{"cmd/tool/go.mod", "internal/tool/go.mod"} {
		developed := run(t, dir, "show", "main:"+name)
		require.Contains(t, developed, home+" v0.1.0\n", name)
		require.Contains(t, developed, "\nreplace "+home+" => ../..", name)
	}
	require.Empty(t, run(t, root, "tag"), "the repository is left alone")
	require.Empty(t, run(t, root, "status", "--porcelain"))

	require.ErrorContains(t, release(dir, "v0.1.0", filepath.Join(t.TempDir(), "again")), "v0.1.0 was released")
	require.NoError(t, release(dir, "contrib/one/v0.1.1", filepath.Join(t.TempDir(), "one")), "an upgrade, of one module")
}

func TestAModuleThatNeedsWhatHasNoTagIsNotReleased(t *testing.T) {
	t.Parallel()
	root := repository(t, map[string]string{
		"contrib/one/go.mod": strings.Replace(small["contrib/one/go.mod"], "v0.0.0", "v0.1.0", 1),
		"cmd/tool/go.mod":    strings.Replace(small["cmd/tool/go.mod"], " v0.0.0\n", " v0.1.0\n", 1),
	})
	run(t, root, "tag", "v0.1.0")
	save(t, root, map[string]string{
		"backoff.go":         "package backoff\n\nconst Old, New = 1, 2\n",
		"contrib/one/one.go": strings.Replace(small["contrib/one/one.go"], "backoff.Old", "backoff.New", 1),
	})
	commit(t, root)
	require.ErrorContains(t, release(root, "contrib/one/v0.1.1", ""), "undefined: backoff.New")
}

func TestAReplaceThatUsersWouldNotHaveIsRefused(t *testing.T) {
	t.Parallel()
	root := repository(t, map[string]string{"go.mod": small["go.mod"] + "\nreplace example.com/a => ../a\n"})
	require.ErrorContains(t, release(root, "v0.1.0", ""), "replaces example.com/a")
}

func TestAReleaseNeedsATagThatGoUnderstands(t *testing.T) {
	t.Parallel()
	root := repository(t, nil)
	for tag, problem := range map[string]string{
		"0.1.0": `-tag is "0.1.0"`, "v0.1": `-tag is "v0.1"`, "v2.0.0": "no major version suffix", "contrib/test/v0.1.0": "no published module",
	} {
		_, err := begin(root, filepath.Join(t.TempDir(), "tree"), tag)
		require.ErrorContains(t, err, problem)
	}
}

func TestAReleaseIsOfACommitInAPlaceOfItsOwnWithNotes(t *testing.T) {
	t.Parallel()
	root, fresh := repository(t, nil), filepath.Join(t.TempDir(), "release")
	require.NoError(t, ready(root, "v0.1.0", fresh))
	require.ErrorContains(t, ready(root, "", fresh), "has no heading")
	require.ErrorContains(t, ready(root, "v0.1.1", fresh), "has no heading")
	require.ErrorContains(t, ready(root, "v0.1.0", t.TempDir()), "exists")
	save(t, root, map[string]string{"more.go": "package backoff\n"})
	require.ErrorContains(t, ready(root, "v0.1.0", fresh), "uncommitted changes")
}

func TestTheNotesOfAReleaseEndAtTheNextOne(t *testing.T) {
	root := t.TempDir()
	save(t, root, small)
	said, err := notes(root, "contrib/one/v0.1.1")
	require.NoError(t, err)
	require.Equal(t, "Mends one.", said)
	said, err = notes(root, "v0.1.0")
	require.NoError(t, err)
	require.Equal(t, "The first. See [the guide](https://"+home+"/blob/v0.1.0/docs/guide.md#now) and [Go](https://go.dev).\n\n### Names\n\nAll.", said)
}

func TestADryRunIsOfWhatTheChangelogAnnounces(t *testing.T) {
	root := t.TempDir()
	for text, want := range map[string]string{
		unreleased: "contrib/one/v0.1.1", "## v0.1.0 (2026-01-02)\n": "v0.1.1", "## contrib/one/v0.1.9 (2026-01-02)\n": "contrib/one/v0.1.10",
	} {
		save(t, root, map[string]string{"CHANGELOG.md": text})
		tag, err := announced(root)
		require.NoError(t, err)
		require.Equal(t, want, tag)
	}
}

func TestWhatIsPublishedIsTheRootAndWhatUsersImportOrInstall(t *testing.T) {
	root := t.TempDir()
	save(t, root, small)
	all, err := modules(root)
	require.NoError(t, err)
	chosen, err := published(all)
	require.NoError(t, err)
	r := plan{version: "v0.1.0", chosen: chosen}
	require.Equal(t, []string{"cmd/tool/v0.1.0", "contrib/one/v0.1.0", "v0.1.0"}, r.tags())
}

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
	require.NoError(t, yaml.Unmarshal([]byte(docpagetest.Read(t, here+"/.github/dependabot.yml")), &settings))
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
		for _, action := range uses.FindAllStringSubmatch(docpagetest.Read(t, name), -1) {
			parts := pinned.FindStringSubmatch(action[1])
			require.NotNil(t, parts, "%s uses %s", name, action[1])
			if before := seen[parts[1]]; before != "" {
				require.Equal(t, before, action[1], name)
			}
			seen[parts[1]] = action[1]
		}
	}
}
