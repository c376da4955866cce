// Command release makes a release and proves that it can be used, without
// publishing it.
//
//	go run -C internal/lab ./release -root ../.. -version v0.1.0 -proxy dist/proxy
//
// It takes the committed tree and gives every published module the go.mod of a
// release: without replace, and with the other modules of this repository at
// the same version. It packs each module as a zip file into a directory that
// the go command reads as a module proxy. Then it uses each module from that
// proxy with an empty module cache: it builds and runs a program that imports
// all of the module's packages, and installs its commands.
//
// Finally it prints the tags of the release, one per module, in the form that
// Go requires for a module in a subdirectory: contrib/backoffgrpc/v0.1.0.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/semver"
)

func main() {
	version := flag.String("version", "", "the `version` to release, as v0.1.0")
	proxy := flag.String("proxy", "", "the `directory` that becomes the module proxy; must not exist")
	root := flag.String("root", ".", "the repository")
	flag.Parse()
	if err := run(*root, *version, *proxy); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(root, version, proxy string) error {
	if err := check(version, proxy); err != nil {
		return err
	}
	proxy, err := filepath.Abs(proxy)
	if err != nil {
		return err
	}
	tree, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := export(root, tree); err != nil {
		return err
	}
	modules, err := published(tree)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := m.pack(version, proxy); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		fmt.Println("packed", m.path, version)
	}
	if err := prove(modules, version, proxy); err != nil {
		return err
	}
	fmt.Println("\nproved. The tags of this release:")
	for _, m := range modules {
		fmt.Println("\t" + m.tag(version))
	}
	return nil
}

func check(version, proxy string) error {
	switch {
	case !semver.IsValid(version) || semver.Canonical(version) != version:
		return fmt.Errorf("-version is %q, want a full semantic version such as v0.1.0", version)
	case semver.Major(version) != "v0" && semver.Major(version) != "v1":
		return fmt.Errorf("-version is %s, but the module path has no major version suffix", version)
	case proxy == "":
		return fmt.Errorf("-proxy is empty, want a directory")
	}
	if _, err := os.Stat(proxy); err == nil {
		return fmt.Errorf("-proxy: %s exists; a version that was packed once never changes", proxy)
	}
	return nil
}
