package controlhttp

import (
	"bytes"
	"fmt"
	"html"
	"time"

	"github.com/gobackoff/backoff/control"
)

// page returns the page for people. It has neither scripts nor styles, and loads
// nothing.
func (c contents) page() []byte {
	var p document
	p.add(pageHead)
	if len(c.Overrides) == 0 {
		p.add("<p>Nothing is overridden: the settings of the program hold.</p>\n")
	}
	for _, o := range c.Overrides {
		p.addOverride(o)
	}
	p.add(pageForm)
	names := make(map[string]bool)
	for _, t := range c.Targets {
		if !names[t.Name] {
			names[t.Name] = true
			p.add("<option>%s</option>", t.Name)
		}
	}
	p.add("</datalist>\n<h2>What can be overridden</h2>\n<ul>\n")
	for _, t := range c.Targets {
		p.add("<li>%s</li>\n", t.String())
	}
	p.add(pageEnd)
	return p.Bytes()
}

// document is HTML in the making.
type document struct{ bytes.Buffer }

// add adds markup. What it shows are texts, which cannot become markup, also as
// attributes in double quotes.
func (p *document) add(markup string, texts ...string) {
	var escaped []any
	for _, text := range texts {
		escaped = append(escaped, html.EscapeString(text))
	}
	fmt.Fprintf(p, markup, escaped...)
}

// addOverride adds an override, with a form that clears it.
func (p *document) addOverride(o control.Override) {
	if o.What == control.Spec {
		p.add("<section>\n<h2>%s</h2>\n<pre>%s</pre>\n", o.Target.String(), o.To)
	} else {
		p.add("<section>\n<h2>%s: %s</h2>\n", o.Target.String(), o.To)
	}
	p.add("<p>By %s since %s: %s.\n", o.Who, format(o.Since), o.Why)
	if o.Until.IsZero() {
		p.add("It has no end.</p>\n")
	} else {
		p.add("It ends at %s, in %s.</p>\n", format(o.Until), time.Until(o.Until).Round(time.Second).String())
	}
	p.add(clearForm, o.What, o.Name, o.Key, o.Target.String())
}

// format returns a moment as the page shows it.
func format(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

const pageHead = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Overrides</title></head>
<body>
<h1>Overrides</h1>
`

const clearForm = `<form method="post">
<input type="hidden" name="do" value="clear">
<input type="hidden" name="what" value="%s"><input type="hidden" name="name" value="%s"><input type="hidden" name="key" value="%s">
<label>Why <input name="why" required maxlength="200"></label>
<button aria-label="Clear the override of %s">Clear</button>
</form>
</section>
`

const pageForm = `<h2>Set an override</h2>
<p>It holds in this process only, for calls that begin from now on, until it ends or the process does.
An override for a name takes precedence over one for all, and replaces an earlier one for that name.
While retries are off, a call makes one attempt, and a loop that reconnects waits until they are on.</p>
<form method="post">
<p><label>What <select name="what"><option>retries</option><option>hedges</option><option>breakers</option><option>spec</option></select></label></p>
<p><label>Name, or * for all <input name="name" list="names" required></label></p>
<p><label>Key, of breakers that have keys <input name="key"></label></p>
<p><label>To: off or on; enforce, observe, forced open or forced closed; or a spec such as {"maxAttempts": 2} <textarea name="to" required></textarea></label></p>
<p><label>For <input name="for" placeholder="1h"></label></p>
<p><label>Why <input name="why" required maxlength="200"></label></p>
<button>Set</button>
</form>
<datalist id="names">`

const pageEnd = `</ul>
<p>Only what is registered with the panel can be overridden. A policy without a handle cannot, and is not listed here.</p>
</body>
</html>
`
