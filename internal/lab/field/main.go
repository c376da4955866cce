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
	docs = "../../docs"
)

// command does what its arguments say.
func command(args []string) error {
	set := flag.NewFlagSet("field", flag.ContinueOnError)
	names := set.String("clients", "", "run only these clients: `names`, with commas between them")
	loads := set.String("loads", "80,90", "run dips at these loads, in `percent` of the capacity; \"\" for none")
	kinds := set.String("troubles", "chance,restart", "run these troubles; \"\" for none")
	short := set.Bool("trial", false, "run for 20 s, print the figures, and keep nothing")
	only := set.Bool("page", false, "run nothing: write the page from what is kept")
	if err := set.Parse(args); err != nil {
		return err
	}
	runs, err := load(kept)
	if err != nil {
		return err
	}
	if !*only {
		plan, err := planned(*names, *loads, *kinds, *short)
		if err != nil {
			return err
		}
		if runs, err = measureAll(plan, runs, *short); err != nil || *short {
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
// too little time for it, or they are trials.
func measureAll(plan, runs []*run, trials bool) ([]*run, error) {
	var again []string
	for i, p := range plan {
		name := fmt.Sprintf("%s at %d %% %s", p.Client, p.Setup.Load, p.Setup.Trouble)
		fmt.Printf("%d of %d: %s, %v\n", i+1, len(plan), name, p.Setup.Horizon)
		r, err := measure(p.Setup, p.Client)
		if err != nil {
			return nil, err
		}
		fmt.Println(r)
		switch {
		case trials:
		case r.Fleet.LatestCall.Load() > tooLate:
			again = append(again, name)
		default:
			runs = add(runs, r)
			if err := keep(kept, runs); err != nil {
				return nil, err
			}
		}
	}
	if len(again) > 0 {
		return nil, fmt.Errorf("the machine was too busy, and calls began too late, of %s; run them again", strings.Join(again, ", "))
	}
	return runs, nil
}

// planned returns the runs that are wanted, without results.
func planned(names, loads, kinds string, short bool) (plan []*run, err error) {
	chosen := split(names)
	for _, name := range chosen {
		if clientNamed(name) == nil {
			return nil, fmt.Errorf("there is no client %q", name)
		}
	}
	setups, err := setupsFor(split(loads), split(kinds), short)
	for _, s := range setups {
		for _, c := range clients {
			if (names == "" || slices.Contains(chosen, c.name)) && (c.model != nil || s.Trouble != noTrouble) {
				plan = append(plan, &run{Client: c.name, Setup: s})
			}
		}
	}
	return plan, err
}

// split returns the words between the commas of a list.
func split(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// setupsFor returns the setups of dips at some loads, and of some troubles.
func setupsFor(loads, kinds []string, short bool) (all []setup, err error) {
	for _, word := range loads {
		percent, err := strconv.Atoi(word)
		if err != nil || percent < 1 || percent > 100 {
			return nil, fmt.Errorf("the load %q is not a percentage", word)
		}
		if short {
			all = append(all, trial(percent))
		} else {
			all = append(all, usual(percent))
		}
	}
	for _, kind := range kinds {
		if !slices.Contains(troubles, trouble(kind)) {
			return nil, fmt.Errorf("there is no trouble %q", kind)
		}
		all = append(all, troubled(trouble(kind)))
	}
	return all, nil
}
