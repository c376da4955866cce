package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/gobackoff/backoff/internal/lab/docpage"
)

// pageText is the text of the page, with what is measured left out.
//
//go:embed page.md.tmpl
var pageText string

// A page is what the words are about.
type page struct {
	Cells []cell
	mod   string // the text of a go.mod
}

// write simulates what was measured, and writes the page and its picture to a
// directory. The versions of the peers are those in the text of a go.mod.
func write(dir string, runs []*run, mod string) error {
	if len(runs) == 0 {
		return errors.New("nothing is kept: run make field")
	}
	p := page{mod: mod}
	for _, r := range runs {
		simulation, err := r.simulate()
		if err != nil {
			return err
		}
		p.Cells = append(p.Cells, cell{r, simulation})
	}
	text, err := docpage.Fill(pageText, p, template.FuncMap{"span": span})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "field.svg"), []byte(draw(p.Cells)), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "field.md"), []byte(text), 0o666)
}

// Setup is what is the same for all loads.
func (p page) Setup() setup { return p.Cells[0].Setup }

// What the words say of the setup.
func (p page) Capacity() float64       { return p.Setup().capacity() }
func (p page) From() int               { return seconds(p.Setup().From) }
func (p page) To() int                 { return seconds(p.Setup().From + p.Setup().For) }
func (p page) Left() float64           { return 100 * p.Setup().Left }
func (p page) SlowService() string     { return span(p.Setup().work(p.Setup().From)) }
func (p page) Bound() float64          { return 100 / float64(p.Setup().Load) }
func (p page) RecoveredShare() float64 { return 100 * recoveredShare }
func (p page) RecoveredFor() int       { return recoveredFor }
func (p page) Simulations() int        { return simulations }

// span writes a time as in 20 ms or 1 s.
func span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.0f ms", 1000*d.Seconds())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// Lengths says how long the runs are, by load.
func (p page) Lengths() string {
	var all []string
	for i, c := range p.Cells {
		if i == 0 || c.Setup.Load != p.Cells[i-1].Setup.Load {
			all = append(all, fmt.Sprintf("%s at a load of %d %%", span(c.Setup.Horizon), c.Setup.Load))
		}
	}
	return strings.Join(all, ", and ")
}

// Minutes is how long all runs take.
func (p page) Minutes() int {
	all := 30 * time.Second // for the simulations
	for _, r := range p.Cells {
		all += r.Setup.Horizon + 2*time.Second
	}
	return int(all.Round(time.Minute).Minutes())
}

// Runs are the machines and the dates, each once.
func (p page) Runs() string {
	var all []string
	for _, r := range p.Cells {
		if s := r.Machine + ", " + r.Date; !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return strings.Join(all, "; ")
}

// Clients is the table of the clients.
func (p page) Clients() string {
	var b strings.Builder
	b.WriteString("| Client | Version | What it does |\n|---|---|---|\n")
	for _, c := range clients {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.caption, docpage.Version(p.mod, c.module), c.about)
	}
	return b.String()
}

// Results is the table of the figures.
func (p page) Results() string {
	var b strings.Builder
	b.WriteString("| Load | Client | Recovery | simulated | Success | simulated | Attempts per call | simulated |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range p.Cells {
		f, m := c.figures(), simulated(c.simulation)
		fmt.Fprintf(&b, "| %d %% | %s | %s | %s | %.1f %% | %.1f %% | %.2f | %.2f |\n", c.Setup.Load, clientNamed(c.Client).caption,
			f.recovers(c.Setup), m.recovers(c.Setup), 100*f.success, 100*m.success, f.attempts, m.attempts)
	}
	return b.String()
}

// Most is the most of what each run says of itself.
func (p page) Most() (most struct{ CPU, Late, Answer, Attempts float64 }) {
	for _, r := range p.Cells {
		most.CPU = max(most.CPU, r.FleetCPU+r.ServiceCPU)
		most.Late = max(most.Late, float64(r.Fleet.LatestCall.Load())/1000)
		most.Answer = max(most.Answer, float64(r.Service.LatestAnswer.Load())/1000)
		for i := range r.Fleet.Attempts {
			most.Attempts = max(most.Attempts, float64(r.Fleet.Attempts[i].Load()))
		}
	}
	return most
}
