// Package required reads the list of what has to be logged and shown, for tests
// that compare it with what is.
package required

import (
	"os"
	"regexp"
	"strings"
)

var quoted = regexp.MustCompile("`(.*?)`")

// Names returns the names in a column of a table of the Markdown file at path, by
// the text in column 1. The table is the one whose first column has the title.
// Names are in backticks.
func Names(path, title string, column int) (map[string][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, table, _ := strings.Cut(string(text), "| "+title)
	_, table, _ = strings.Cut(table, "\n")
	all := make(map[string][]string)
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(all) > 0 && len(cells) <= column {
			break
		}
		if len(cells) <= column {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[column], -1) {
			what := strings.TrimSpace(cells[1])
			all[what] = append(all[what], name[1])
		}
	}
	return all, nil
}
