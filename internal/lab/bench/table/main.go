// Command table reads the output of benchmarks and writes the table of a Markdown file, between the
// two lines that are comments and say table.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"log"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

type candidate struct {
	name       string
	ns, allocs float64 // the least of all rounds
}

func main() {
	scenarios, order := read()
	var table strings.Builder
	table.WriteString("| scenario | this library, ns | allocs | by hand, ns | ratio | others, ns |\n|---|---|---|---|---|---|\n")
	for _, name := range order {
		var hand, ours candidate
		var others []string
		all := scenarios[name]
		slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.ns, b.ns) })
		for _, c := range all {
			switch c.name {
			case "minimal":
				hand = c
			case "backoff":
				ours = c
			default:
				others = append(others, c.name+" "+digits(c.ns))
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %.0f | %s | %.2f | %s |\n", strings.TrimSuffix(name, "/"), digits(ours.ns), ours.allocs, digits(hand.ns), ours.ns/hand.ns, strings.Join(others, ", "))
	}
	text, err := os.ReadFile(os.Args[1])
	parts := strings.SplitAfter(string(text), "<!-- table -->\n")
	if err != nil || len(parts) != 3 {
		log.Fatalf("%s has no place for a table: %v", os.Args[1], err)
	}
	if err := os.WriteFile(os.Args[1], []byte(parts[0]+table.String()+"<!-- table -->\n"+parts[2]), 0o644); err != nil {
		log.Fatal(err)
	}
}

// digits returns n with three digits, or more before the point.
func digits(n float64) string {
	return strconv.FormatFloat(n, 'f', max(0, 2-int(math.Log10(max(1, n)))), 64)
}

// read returns the candidates by scenario, and the scenarios in their order.
func read() (scenarios map[string][]candidate, order []string) {
	scenarios = map[string][]candidate{}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(strings.TrimPrefix(in.Text(), "Benchmark"))
		if len(words) < 8 || words[3] != "ns/op" || !strings.Contains(words[0], "/") {
			continue
		}
		full := words[0][:strings.LastIndex(words[0], "-")] // without the number of processors
		name, last := path.Split(full)
		c := candidate{name: last}
		c.ns, _ = strconv.ParseFloat(words[2], 64)
		c.allocs, _ = strconv.ParseFloat(words[len(words)-2], 64)
		i := slices.IndexFunc(scenarios[name], func(c candidate) bool { return c.name == last })
		if len(scenarios[name]) == 0 {
			order = append(order, name)
		}
		if i < 0 {
			scenarios[name] = append(scenarios[name], c)
			continue
		}
		scenarios[name][i].ns = min(scenarios[name][i].ns, c.ns)
	}
	return scenarios, order
}
