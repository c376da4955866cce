// Command oncall is a drill for the person on call. A service of five processes
// calls three upstreams. One of them becomes slow, one throttles, and one dies
// and is started again. Then retries to the slow one are switched off in all
// processes, and on again. What a person can see of it is on the live pages, in
// the logs and in the metrics: the program prints where they are, and in the end
// what they say. The document docs/oncall.md explains how to read them.
//
//	go run -C examples ./oncall            40 seconds, and a report
//	go run -C examples ./oncall -for 10m   the same, with time to look around
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if os.Getenv(childVariable) != "" {
		signal.Ignore(os.Interrupt) // it is for the parent, which ends its children
		exitIf(runChild(os.Stdin, os.Stdout, os.Stderr))
		return
	}
	length := flag.Duration("for", 40*time.Second, "how long the drill takes")
	logs := flag.String("logs", "", "directory that keeps the logs; by default they are removed in the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exitIf(run(ctx, os.Stdout, *logs, *length))
}

func exitIf(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the drill until it is over or ctx ends, and prints the report. If logs
// is empty, the logs are removed in the end.
func run(ctx context.Context, out io.Writer, logs string, length time.Duration) (err error) {
	if logs == "" {
		if logs, err = os.MkdirTemp("", "oncall"); err != nil {
			return err
		}
		defer os.RemoveAll(logs)
	} else if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	d, err := start(logs)
	if err != nil {
		return err
	}
	defer d.close()
	d.printAddresses(out)
	failed := d.runSteps(ctx, out, length)
	seen, err := d.finish()
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, d.report(out, seen))
}

// printAddresses prints the addresses of the processes, and the commands that
// switch retries off and on.
func (d *drill) printAddresses(out io.Writer) {
	addresses := ""
	for _, p := range d.services {
		addresses += p.address + " "
		fmt.Fprintf(out, "%s  page http://%s/debug/backoff/  metrics http://%[2]s/debug/backoff/metrics  log %s\n", p.name, p.address, p.log)
	}
	fmt.Fprintf(out, "\nretries to %s off, in all processes, and on again:\n", slowHost)
	for _, form := range []map[string]string{retriesOff, retriesOn} {
		fields := ""
		for _, key := range slices.Sorted(maps.Keys(form)) {
			fields += fmt.Sprintf("-d %s=%q ", key, form[key])
		}
		fmt.Fprintf(out, "  for p in %s; do curl --fail-with-body -sSu %s:%s %shttp://$p/debug/control; done\n", strings.TrimSpace(addresses), person, d.token, fields)
	}
	fmt.Fprintln(out)
}

// report prints what each source says about each upstream, and what the users
// got.
func (d *drill) report(out io.Writer, seen []evidence) error {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "UPSTREAM\tTROUBLE\tSINCE\tLAST\tCIRCUIT\tCALLS HURT\tSOURCE")
	for _, host := range hosts {
		for _, source := range sources {
			name := source.name
			if name == "page" {
				name += ", " + seen[0].latest().page.Period.Text
			}
			summarize(seen, host, source.read).print(table, host, name)
		}
		calls, hurt := d.users.count(host)
		fmt.Fprintf(table, "%s\t\t\t\t\t%s\tusers\n", host, partOf(hurt, calls))
	}
	return table.Flush()
}

// print prints what a source says.
func (s symptom) print(out io.Writer, host, source string) {
	trouble, since, last, circuit := "none", "", "", "closed"
	if s.trouble != "" {
		trouble, since, last = s.trouble, s.since.Local().Format(time.TimeOnly), s.last.Local().Format(time.TimeOnly)
	}
	if s.open {
		circuit = "open"
	}
	if s.opened > 0 {
		circuit += fmt.Sprintf(", opened %d times", s.opened)
	}
	fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", host, trouble, since, last, circuit, partOf(s.hurt, s.calls), source)
}

// partOf says how many calls failed.
func partOf(hurt, calls int) string {
	if calls == 0 {
		return fmt.Sprintf("%d or more", hurt)
	}
	return fmt.Sprintf("%d of %d (%.0f %%)", hurt, calls, 100*float64(hurt)/float64(calls))
}
