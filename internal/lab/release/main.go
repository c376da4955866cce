// Command release makes a release and proves that it can be used, without publishing it.
//
//	go run -C internal/lab ./release -root ../.. -tag v0.1.0 -dir dist/release
//
// It clones the repository, and makes the commits and tags of the release in the clone: at a tag
// a module has no replace directive, and requires the other modules of this repository by their
// released versions. The last commit has the replace directives of development again.
//
// Then it uses the tags as their first users will, who have an empty module cache and git only: for
// each module it builds and runs a program that imports all of its packages, and installs its
// commands. It moves each program from the last release to this one, and from this one to the next
// patch release, which it rehearses in a second clone.
//
// The tag v0.1.0 releases all modules under one version. The tag contrib/backoffgrpc/v0.1.1
// releases that module alone. Without -dir it is a dry run: nothing stays, and without -tag it
// tries what the changelog announces.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	tag := flag.String("tag", "", "the `tag` to release: v0.1.0, or contrib/backoffgrpc/v0.1.1 for that module alone")
	dir := flag.String("dir", "", "the `directory` that becomes a clone with the release; must not exist")
	root := flag.String("root", ".", "the repository")
	flag.Parse()
	if err := release(*root, *tag, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(root, tag, dir string) error {
	room, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(room)
	tree := filepath.Join(room, "dry")
	if dir != "" {
		if tree, err = filepath.Abs(dir); err != nil {
			return err
		}
		if err := ready(root, tag, tree); err != nil {
			return err
		}
	}
	r, err := begin(root, tree, tag)
	if err != nil {
		return err
	}
	if err := r.make(room); err != nil {
		return err
	}
	if err := r.prove(room); err != nil {
		return err
	}
	return r.tell(dir == "")
}

// ready checks what only a release that may be published needs.
func ready(root, tag, tree string) error {
	if _, err := notes(root, tag); err != nil {
		return err
	}
	if _, err := os.Stat(tree); err == nil {
		return fmt.Errorf("-dir: %s exists", tree)
	}
	changed, err := git(root, "status", "--porcelain")
	if err == nil && changed != "" {
		err = fmt.Errorf("%s has uncommitted changes, and a release is of a commit:\n%s", root, changed)
	}
	return err
}

// tell prints the notes of the release, and how to publish it.
func (r *plan) tell(dry bool) error {
	branch, err := git(r.tree, "branch", "--show-current")
	if err != nil {
		return err
	}
	fmt.Println("\nproved, and not published:", r.tag)
	if !dry {
		fmt.Printf("\n\tgit pull --ff-only --tags %s %s\n\tgit push --atomic origin %[2]s %s\n",
			r.tree, branch, strings.Join(r.tags(), " "))
	}
	if said, err := notes(r.tree, r.tag); err == nil {
		fmt.Printf("\nIts notes:\n\n%s\n", said)
	}
	return nil
}

func (r *plan) tags() []string {
	var tags []string
	for _, m := range r.chosen {
		tags = append(tags, m.tag(r.version))
	}
	return tags
}
