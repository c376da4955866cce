package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReleaseNeedsAVersionThatGoUnderstandsAndAPlaceOfItsOwn(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "proxy")
	require.NoError(t, check("v0.1.0", fresh))
	require.NoError(t, check("v0.1.0-rc.1", fresh))
	for version, problem := range map[string]string{
		"": `-version is ""`, "0.1.0": `-version is "0.1.0"`, "v0.1": `-version is "v0.1"`, "v2.0.0": "no major version suffix",
	} {
		require.ErrorContains(t, check(version, fresh), problem)
	}
	require.ErrorContains(t, check("v0.1.0", ""), "-proxy is empty")
	require.ErrorContains(t, check("v0.1.0", t.TempDir()), "exists")
}

// write makes a small repository with the layout of this one.
func write(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	return root
}

var small = map[string]string{
	"go.mod":                 "module " + home + "\n",
	"backoff.go":             "package backoff\n",
	"sub/sub.go":             "// Package sub.\npackage sub\n",
	"internal/deep/deep.go":  "package deep\n",
	"internal/tool/go.mod":   "module " + home + "/internal/tool\n",
	"internal/tool/main.go":  "package main\n",
	"contrib/one/go.mod":     "module " + home + "/contrib/one\nrequire " + home + " v0.0.0\nreplace " + home + " => ../..\n",
	"contrib/one/one.go":     "package one\n",
	"contrib/test/go.mod":    "module " + home + "/contrib/test\n",
	"contrib/test/a_test.go": "package test\n",
	"cmd/tool/go.mod":        "module " + home + "/cmd/tool\n",
	"cmd/tool/main.go":       "package main\n",
}

func TestWhatIsPublishedIsTheRootAndWhatUsersImportOrInstall(t *testing.T) {
	modules, err := published(write(t, small))
	require.NoError(t, err)
	var tags, packages, commands []string
	for _, m := range modules {
		tags = append(tags, m.tag("v0.1.0"))
		packages = append(packages, m.packages...)
		commands = append(commands, m.commands...)
	}
	require.Equal(t, []string{"v0.1.0", "contrib/one/v0.1.0", "cmd/tool/v0.1.0"}, tags)
	require.Equal(t, []string{home, home + "/sub", home + "/contrib/one"}, packages)
	require.Equal(t, []string{home + "/cmd/tool"}, commands)
}

func TestAPackedModuleAsksForItsSiblingsByVersion(t *testing.T) {
	root, proxy := write(t, small), t.TempDir()
	m, err := open(root, filepath.Join(root, "contrib", "one"))
	require.NoError(t, err)
	require.NoError(t, m.pack("v0.1.0", proxy))

	dir := filepath.Join(proxy, filepath.FromSlash(m.path), "@v")
	data, err := os.ReadFile(filepath.Join(dir, "v0.1.0.mod"))
	require.NoError(t, err)
	require.Contains(t, string(data), "require "+home+" v0.1.0")
	require.NotContains(t, string(data), "replace")

	packed, err := zip.OpenReader(filepath.Join(dir, "v0.1.0.zip"))
	require.NoError(t, err)
	defer packed.Close()
	file, err := packed.Open(m.path + "@v0.1.0/go.mod")
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestAReplaceThatUsersWouldNotHaveIsRefused(t *testing.T) {
	root := write(t, map[string]string{"go.mod": "module " + home + "\nreplace example.com/a => ../a\n", "a.go": "package backoff\n"})
	m, err := open(root, root)
	require.NoError(t, err)
	require.ErrorContains(t, m.pack("v0.1.0", t.TempDir()), "replaces example.com/a")
}

func TestAReleaseIsOfACommit(t *testing.T) {
	root := write(t, small)
	require.NoError(t, exec.Command("git", "-C", root, "init", "-q").Run())
	require.ErrorContains(t, export(root, t.TempDir()), "uncommitted changes")
}
