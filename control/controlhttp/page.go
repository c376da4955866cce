package controlhttp

import (
	_ "embed" // the page
	"html"
	"strings"
	"time"

	"github.com/gobackoff/backoff/control"
)

// The markup has the names of what it shows in double braces. Package html/template
// would add 2.5 MB to a program.
var (
	//go:embed page.html
	pageHTML string
	//go:embed override.html
	overrideHTML string
)

// page returns the page for people. It has neither scripts nor styles, and loads
// nothing.
func (c contents) page() string {
	var overrides, names, targets strings.Builder
	if len(c.Overrides) == 0 {
		overrides.WriteString("<p>Nothing is overridden: the settings of the program hold.</p>\n")
	}
	for _, o := range c.Overrides {
		overrides.WriteString(section(o))
	}
	seen := make(map[string]bool)
	for _, t := range c.Targets {
		targets.WriteString(fill("<li>{{target}}</li>\n", "target", t.String()))
		if !seen[t.Name] {
			names.WriteString(fill("<option>{{name}}</option>", "name", t.Name))
		}
		seen[t.Name] = true
	}
	return strings.NewReplacer("{{overrides}}", overrides.String(), "{{names}}", names.String(),
		"{{targets}}", targets.String()).Replace(pageHTML)
}

// section returns what the page shows of an override, with a form that clears it.
func section(o control.Override) string {
	target, pre, end := o.Target.String(), "", "It has no end."
	title := target + ": " + o.To
	if o.What == control.Spec {
		title, pre = target, "<pre>{{spec}}</pre>\n"
	}
	if !o.Until.IsZero() {
		left := time.Until(o.Until).Round(time.Second)
		end = "It ends at " + format(o.Until) + ", in " + left.String() + "."
	}
	return fill(strings.Replace(overrideHTML, "{{pre}}", pre, 1), "title", title, "spec", o.To, "target", target,
		"what", o.What, "name", o.Name, "key", o.Key,
		"who", o.Who, "why", o.Why, "since", format(o.Since), "end", end)
}

// fill puts texts into markup, each in the place of its name. No text can become
// markup, also in an attribute in double quotes.
func fill(markup string, namesAndTexts ...string) string {
	var pairs []string
	for i := 0; i < len(namesAndTexts); i += 2 {
		pairs = append(pairs, "{{"+namesAndTexts[i]+"}}", html.EscapeString(namesAndTexts[i+1]))
	}
	return strings.NewReplacer(pairs...).Replace(markup)
}

// format returns a moment as the page shows it.
func format(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
