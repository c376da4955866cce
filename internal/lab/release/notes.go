package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// heading finds the headings of releases: ## v0.1.0 (unreleased).
var heading = regexp.MustCompile(`(?m)^## (\S+) \((.+)\)$`)

func changelog(tree string) (name, text string, err error) {
	name = filepath.Join(tree, "CHANGELOG.md")
	data, err := os.ReadFile(name)
	return name, string(data), err
}

// announced is the tag of the release that the changelog has without a date, or that of the next
// patch release.
func announced(tree string) (string, error) {
	name, text, err := changelog(tree)
	if err != nil {
		return "", err
	}
	first := heading.FindStringSubmatch(text)
	switch {
	case first == nil:
		return "", fmt.Errorf("%s has no heading of a release: ## v0.1.0 (unreleased)", name)
	case first[2] == "unreleased":
		return first[1], nil
	}
	return next(first[1]), nil
}

// relative finds the links to files of the repository.
var relative = regexp.MustCompile(`\]\(([^):#][^):]*)\)`)

// notes are what the changelog says about a release, with links that work outside the repository.
func notes(tree, tag string) (string, error) {
	name, text, err := changelog(tree)
	if err != nil {
		return "", err
	}
	for _, at := range heading.FindAllStringSubmatchIndex(text, -1) {
		if text[at[2]:at[3]] != tag {
			continue
		}
		text = text[at[1]:]
		if end := heading.FindStringIndex(text); end != nil {
			text = text[:end[0]]
		}
		return relative.ReplaceAllString(strings.TrimSpace(text), "](https://"+home+"/blob/"+tag+"/$1)"), nil
	}
	return "", fmt.Errorf("%s has no heading: ## %s (unreleased)", name, tag)
}

// date writes the date of the release into the changelog.
func (r *plan) date(now time.Time) error {
	name, text, err := changelog(r.tree)
	if err != nil {
		return err
	}
	line := "\n## " + r.tag + " (%s)\n"
	dated := strings.Replace(text, fmt.Sprintf(line, "unreleased"), fmt.Sprintf(line, now.UTC().Format(time.DateOnly)), 1)
	return os.WriteFile(name, []byte(dated), 0o644)
}
