package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report ends the users' requests, and prints what each source says about each
// upstream, and what the users got.
func (d *drill) report(out io.Writer) error {
	d.settle()
	if err := d.watch.look(); err != nil {
		return err
	}
	records, err := d.readLogs()
	if err != nil {
		return err
	}
	looks := d.watch.all()
	pages, logs, metrics := readPages(looks[len(looks)-1]), readRecords(records), readScrapes(looks)
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "UPSTREAM\tTROUBLE\tSINCE\tLAST\tCIRCUIT\tCALLS HURT\tSOURCE")
	for i, host := range hosts {
		pages[i].print(table, "page, "+looks[len(looks)-1].pages[0].Period.Text)
		logs[i].print(table, "logs")
		metrics[i].print(table, "metrics")
		calls, hurt := d.users.tally(host)
		fmt.Fprintf(table, "%s\t\t\t\t\t%s\tusers\n", host, hurtText(hurt, calls))
	}
	return table.Flush()
}

// print prints what a source says.
func (f finding) print(out io.Writer, source string) {
	trouble, since, last, circuit := "none", "", "", "closed"
	if f.trouble != "" {
		trouble, since, last = f.trouble, f.since.Local().Format(time.TimeOnly), f.last.Local().Format(time.TimeOnly)
	}
	if f.open {
		circuit = "open"
	}
	if f.opened > 0 {
		circuit += fmt.Sprintf(", opened %d times", f.opened)
	}
	fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.host, trouble, since, last, circuit, hurtText(f.hurt, f.calls), source)
}

// hurtText says how many calls failed.
func hurtText(hurt, calls int) string {
	if calls == 0 {
		return fmt.Sprintf("%d or more", hurt)
	}
	return fmt.Sprintf("%d of %d (%.0f %%)", hurt, calls, share(hurt, calls))
}

// tally returns how many requests of users there were for an upstream, and how
// many of them failed.
func (u *users) tally(host string) (all, hurt int) {
	for _, r := range u.answered() {
		if r.host == host {
			all++
			if r.hurt {
				hurt++
			}
		}
	}
	return all, hurt
}
