package main

import (
	"fmt"
	"strings"
	"time"
)

// progress draws a progress bar on a terminal when a run takes longer than a
// second. On anything else it draws nothing.
type progress struct {
	*terminal
	began, drawn time.Time
}

func (t *terminal) progress() *progress { return &progress{terminal: t, began: time.Now()} }

// step draws the bar, at most ten times a second.
func (p *progress) step(done, total int) {
	now := time.Now()
	if !p.live || now.Sub(p.began) < time.Second || now.Sub(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = now
	const width = 40
	full := width * done / max(1, total)
	left := time.Duration(float64(now.Sub(p.began)) * float64(total-done) / float64(max(1, done)))
	fmt.Fprintf(p.err, "\r[%s%s] %d of %d, %v left \x1b[K", strings.Repeat("=", full), strings.Repeat(" ", width-full), done, total, left.Round(time.Second))
}

// clear removes the bar.
func (p *progress) clear() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.err, "\r\x1b[K")
	}
}
