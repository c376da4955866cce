package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	err := error(nil)
	if os.Getenv(inChild) != "" {
		err = obey(os.Stdin, os.Stdout)
	} else {
		err = command(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "field:", err)
		os.Exit(1)
	}
}

// kept is where the runs are kept, and docs where the page is. The command runs
// in the directory of the module.
const (
	kept = "field/testdata/runs.json"
	docs = "../../docs/results"
)

// command does what its arguments say.
func command(args []string) error {
	set := flag.NewFlagSet("field", flag.ContinueOnError)
	names := set.String("clients", "", "run only these clients: `names`, with commas between them")
	loads := set.String("loads", "80,90", "run dips at these loads, in `percent` of the capacity")
	only := set.Bool("page", false, "run nothing: write the page from what is kept")
	if err := set.Parse(args); err != nil {
		return err
	}
	runs, err := load(kept)
	if err != nil {
		return err
	}
	if !*only {
		plan, err := planned(*names, *loads)
		if err != nil {
			return err
		}
		if runs, err = measureAll(plan, runs); err != nil {
			return err
		}
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	return write(docs, runs, string(mod))
}

// tooLate is how late a call may begin for a run to count.
const tooLate = 500_000 // microseconds

// measureAll makes the runs of a plan. It keeps each, unless the machine had
// too little time for it.
func measureAll(plan, runs []*run) ([]*run, error) {
	var again []string
	for i, p := range plan {
		name := fmt.Sprintf("%s at %d %%", p.Client, p.Setup.Load)
		fmt.Printf("%d of %d: %s, %v\n", i+1, len(plan), name, p.Setup.Horizon)
		r, err := measure(p.Setup, p.Client)
		if err != nil {
			return nil, err
		}
		fmt.Println(r)
		if r.Fleet.LatestCall.Load() > tooLate {
			again = append(again, name)
			continue
		}
		runs = add(runs, r)
		if err := keep(kept, runs); err != nil {
			return nil, err
		}
	}
	if len(again) > 0 {
		return nil, fmt.Errorf("the machine was too busy, and calls began too late, of %s; run them again", strings.Join(again, ", "))
	}
	return runs, nil
}

// planned returns the runs that are wanted, without results.
func planned(names, loads string) (plan []*run, err error) {
	chosen := strings.Split(names, ",")
	for _, name := range chosen {
		if names != "" && clientNamed(name) == nil {
			return nil, fmt.Errorf("there is no client %q", name)
		}
	}
	for word := range strings.SplitSeq(loads, ",") {
		percent, err := strconv.Atoi(word)
		if err != nil || percent < 1 || percent > 100 {
			return nil, fmt.Errorf("the load %q is not a percentage", word)
		}
		for _, c := range clients {
			if names == "" || slices.Contains(chosen, c.name) {
				plan = append(plan, &run{Client: c.name, Setup: usual(percent)})
			}
		}
	}
	return plan, nil
}
