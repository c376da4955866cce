package real

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A verdict is what a person thinks of a finding, who has read the code.
type verdict struct {
	place         // where it is
	is     string // true, arguable or false
	reason string // what a maintainer would read
}

type place struct{ module, line, rule string }

func readVerdicts(name string) ([]verdict, error) {
	rows, err := readTable(name)
	if err != nil {
		return nil, err
	}
	var all []verdict
	for _, row := range rows {
		all = append(all, verdict{place: place{row[0], row[1], row[2]}, is: row[3], reason: row[4]})
	}
	return all, nil
}

// readTable returns the rows of a table without the first, which names the columns.
func readTable(name string) ([][]string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	columns := 0
	for line := range strings.Lines(string(content)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		columns = max(columns, len(row))
		if len(row) != columns {
			return nil, fmt.Errorf("%s: %d columns, not %d: %s", name, len(row), columns, line)
		}
		rows = append(rows, row)
	}
	return rows[1:], nil
}

// precision returns the table of how often each rule is right. What is arguable counts as false.
func precision(verdicts []verdict) string {
	count := map[string]map[string]int{}
	for _, v := range verdicts {
		for _, rule := range []string{v.rule, "all"} {
			if count[rule] == nil {
				count[rule] = map[string]int{}
			}
			count[rule][v.is]++
		}
	}
	table := "| rule | found | true | arguable | false | precision |\n|---|---|---|---|---|---|\n"
	for _, rule := range slices.SortedFunc(maps.Keys(count), allLast) {
		c := count[rule]
		found := c["true"] + c["arguable"] + c["false"]
		table += fmt.Sprintf("| %s | %d | %d | %d | %d | %d %% |\n",
			rule, found, c["true"], c["arguable"], c["false"], 100*c["true"]/found)
	}
	return table
}

func allLast(a, b string) int {
	if a == "all" || b == "all" {
		return strings.Compare(b, a)
	}
	return strings.Compare(a, b)
}
