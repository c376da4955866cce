package main

import (
	"errors"
	"time"
)

// aboutPolicy is the help text of the command policy.
const aboutPolicy = `Prints the waits of policies, retry by retry: the delay of the schedule, the wait after
jitter (least, mean, most), and the total wait up to that retry. Then it prints, for each
policy, how many attempts there are at the longest and at the shortest waits, and how long
a call can take.

A policy whose byClass has a class of failures is followed by what a call does that
fails with this class only.

A policy is a file in JSON or YAML (- is the standard input), or a name of -list. The
attempts themselves take no time.`

// policyFlags are the flags of the command policy.
type policyFlags struct {
	policies []string
	list     bool
	retries  int
	deadline time.Duration
}

// parse parses and checks the flags.
func (f *policyFlags) parse(t *terminal, c *command, args []string) error {
	set := c.flags()
	namesVar(set, &f.policies, "policy", "a policy `file or name`; may be given more than once (default \"default\")")
	set.BoolVar(&f.list, "list", false, "print the names that -policy knows")
	set.IntVar(&f.retries, "retries", 0, "show so many `retries`, whether the policy allows them or not (default what it allows, at most 20)")
	set.DurationVar(&f.deadline, "deadline", 0, "count the attempts that begin within this `time`")
	if err := t.parse(c, set, aboutPolicy, args); err != nil {
		return err
	}
	if f.retries < 0 || f.retries > maxRetries {
		return errors.New("-retries must be 0 to 1000")
	}
	if f.deadline < 0 {
		return errors.New("-deadline must not be negative")
	}
	if len(f.policies) == 0 {
		f.policies = []string{"default"}
	}
	return nil
}

func runPolicy(t *terminal, c *command, args []string) error {
	var f policyFlags
	if err := f.parse(t, c, args); err != nil {
		return err
	}
	if f.list {
		t.list()
		return nil
	}
	candidates, err := t.findAll(nil, f.policies)
	if err != nil {
		return err
	}
	var views []view
	for _, c := range candidates {
		for _, c := range byClass(c) {
			views = append(views, newView(c, &f))
		}
	}
	t.printViews(views, &f)
	return nil
}
