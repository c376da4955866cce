package guards

import (
	"fmt"
	"html"
	"strings"

	"github.com/gobackoff/backoff/internal/lab/docpage"
)

// The sizes of the picture. Each row is a highlight, and each column a client.
const (
	width, labels      = 866, 206
	column, rowHeight  = 73, 22
	top, barLeft, barY = 92, 4, 4
	barWidth           = 64.0
)

// The colours follow the reader's scheme.
const style = `<style>
text{font:11px "Liberation Sans",Arimo,Arial,Helvetica,sans-serif;fill:#57606A}
.title{font-size:16px;font-weight:bold;fill:#1F2328}
.name,.part{font-weight:bold;fill:#1F2328}.part{font-size:13px}
.label,.number{fill:#1F2328}
.paper{fill:#FFFFFF}.rule{stroke:#DDE1E6}.trough{fill:#EFF1F4}
.good{fill:#9BD3AE}.some{fill:#F3D98B}.bad{fill:#F0A9A1}.could{stroke:#1F2328;stroke-width:1.5}
@media (prefers-color-scheme:dark){
text{fill:#9DA7B3}.title,.name,.part,.label,.number{fill:#E6EDF3}
.paper{fill:#0D1117}.rule{stroke:#30363D}.trough{fill:#1B2129}
.good{fill:#1F6B3B}.some{fill:#7A5B12}.bad{fill:#8A2F28}.could{stroke:#E6EDF3}
}
</style>
`

// A picture is rows, and what is around them.
type picture struct{ docpage.SVG }

// picture returns the picture of the highlights.
func (p page) picture() string {
	var rows picture
	y := rows.part(top, "Calls that succeed, in percent. A stroke is what could be.")
	costs := false
	for _, h := range highlights {
		if h.cost() && !costs {
			y, costs = rows.part(y+14, "What it costs. Shorter is better."), true
		}
		rows.highlight(y, h, p.board[h.world])
		y += rowHeight
	}
	var all picture
	for i, c := range shownClients() {
		x := labels + i*column + barLeft
		all.Line(`<text class="name" transform="translate(%d %d) rotate(-28)">%s</text>`, x+8, top-4, html.EscapeString(c.caption))
	}
	all.WriteString(rows.String())
	return all.Document(width, y+8, "What clients make of services in trouble", p.describe(), style)
}

// part writes the heading of a part, and returns where its rows begin.
func (p *picture) part(y int, text string) int {
	p.Text(8, y+14, "part", text)
	return y + 22
}

// describe says what the picture shows, for those who cannot see it.
func (p page) describe() string {
	var all []string
	for _, h := range highlights {
		r := p.board[h.world]
		all = append(all, fmt.Sprintf("%s: %s %s, %s %s, %s %s.", h.words, clients[0].caption, h.shown(r[ours]),
			"go-retryablehttp", h.shown(r[hashicorp]), "no retries", h.shown(r[none])))
	}
	return strings.Join(all, " ")
}

// highlight draws a row.
func (p *picture) highlight(y int, h highlight, r results) {
	p.Text(8, y+14, "label", h.brief)
	worst := 0.0
	for _, c := range shownClients() {
		worst = max(worst, r[c.name][h.figure])
	}
	for i, c := range shownClients() {
		p.cell(labels+i*column+barLeft, y, h, r[c.name], worst)
	}
	p.Line(`<path class="rule" d="M8 %dh%d"/>`, y+rowHeight, width-16)
}

// cell draws the figure of a client, as a number on a bar.
func (p *picture) cell(x, y int, h highlight, f figures, worst float64) {
	v := f[h.figure]
	part := v / 100
	if h.cost() {
		part = v / max(worst, 1e-9)
	}
	p.Line(`<rect class="trough" x="%d" y="%d" width="%.1f" height="%d"/>`, x, y+barY, barWidth, rowHeight-2*barY)
	p.Line(`<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, h.mark(f), x, y+barY, barWidth*max(0, part), rowHeight-2*barY)
	if !h.cost() {
		p.Line(`<path class="could" d="M%.1f %dv%d"/>`, float64(x)+barWidth*f[could]/100, y+barY-1, rowHeight-2*barY+2)
	}
	p.Text(x+3, y+15, "number", h.number(f))
}

// mark says how good a figure is: a class of the style.
func (h highlight) mark(f figures) string {
	worse, good, fair := f[could]-f[success], 3.0, 15.0
	if h.cost() {
		worse, good, fair = f[h.figure], h.good, h.fair
	}
	switch {
	case h.figure == took && f[success] < 99.5:
		return "bad" // the job was not done
	case worse <= good:
		return "good"
	case worse <= fair:
		return "some"
	}
	return "bad"
}

// number prints a figure for a cell, which is small.
func (h highlight) number(f figures) string {
	v := f[h.figure]
	switch {
	case v < 0:
		return "never"
	case h.figure == took && f[success] < 99.5:
		return fmt.Sprintf("%.1f, fails", v)
	case h.figure == whileDown:
		return fmt.Sprintf("%.0f", v)
	case h.figure == meanwhile || h.figure == leaf:
		return fmt.Sprintf("%.2f", v)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}
