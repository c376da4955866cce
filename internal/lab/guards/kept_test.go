package guards

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A board is what the clients made of each world, by "group/name".
type board map[string]results

// keptAt is where the figures of the page are kept.
const keptAt = "testdata/figures.json"

// loadBoard reads what is kept in a file, if there is one.
func loadBoard(file string) (board, error) {
	b := board{}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	return b, json.Unmarshal(text, &b)
}

// keep writes the figures to a file, with a line for each client of each world.
// Worlds that are no more, it leaves out.
func (b board) keep(file string) error {
	var lines []string
	for _, worlds := range groups() {
		for _, w := range worlds {
			if r := b[w.key()]; r != nil {
				lines = append(lines, fmt.Sprintf("%q: {\n%s\n}", w.key(), r.lines()))
			}
		}
	}
	return os.WriteFile(file, []byte("{\n"+strings.Join(lines, ",\n")+"\n}\n"), 0o666)
}

// lines returns the members of a JSON object, one on each line.
func (r results) lines() string {
	var lines []string
	for _, client := range slices.Sorted(maps.Keys(r)) {
		text, err := json.Marshal(r[client])
		if err != nil {
			panic(err) // a figure is no number
		}
		lines = append(lines, fmt.Sprintf("\t%q: %s", client, text))
	}
	return strings.Join(lines, ",\n")
}

// add adds figures, in place of those of the same world and client.
func (b board) add(w world, r results) {
	if b[w.key()] == nil {
		b[w.key()] = results{}
	}
	for client, f := range r {
		b[w.key()][client] = f.rounded()
	}
}

// rounded returns the figures with four digits, which is more than they are
// worth.
func (f figures) rounded() figures {
	all := figures{}
	for name, v := range f {
		all[name], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	}
	return all
}

// key returns under which name a board has the world.
func (w world) key() string { return w.group + "/" + w.name }
