package main

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed notes.md
var words string

// notes are the words of the page: how it is measured, and a note for each
// scenario.
type notes struct {
	how   string
	names []string // in their order
	of    map[string]note
}

// A note says what a scenario is, and why its figures are not better.
type note struct{ what, why string }

// why begins the paragraph that explains.
const why = "Why: "

// parseNotes reads text, whose headings of the second level are the names of
// scenarios. What stands before them is how.
func parseNotes(text string) (*notes, error) {
	sections := strings.Split("\n"+text, "\n## ")
	n := &notes{how: strings.TrimSpace(sections[0]), of: map[string]note{}}
	for _, section := range sections[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if _, ok := n.of[name]; ok {
			return nil, fmt.Errorf("the notes have two sections %s", name)
		}
		n.names = append(n.names, name)
		n.of[name] = parseNote(body)
	}
	return n, nil
}

func parseNote(body string) note {
	var n note
	var what []string
	for _, paragraph := range strings.Split(strings.TrimSpace(body), "\n\n") {
		if reason, ok := strings.CutPrefix(paragraph, why); ok {
			n.why = reason
		} else {
			what = append(what, paragraph)
		}
	}
	n.what = strings.Join(what, "\n\n")
	return n
}
