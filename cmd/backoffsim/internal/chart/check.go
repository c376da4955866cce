package chart

import (
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// A checker keeps the first error in the data of a chart.
type checker struct {
	chart string
	err   error
}

// refuse keeps an error, if it is the first one.
func (c *checker) refuse(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("chart: "+c.chart+": "+format, args...)
	}
}

// maxLetters is how many letters a text may have.
const maxLetters = 1000

// text requires a text that an XML document and a few lines of a picture can
// hold.
func (c *checker) text(field, s string) {
	if n := utf8.RuneCountInString(s); n > maxLetters {
		c.refuse("%s has %d letters, want %d or fewer", field, n, maxLetters)
		return
	}
	if !utf8.ValidString(s) {
		c.refuse("%s is not valid UTF-8: %q", field, s)
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\uFFFE' || r == '\uFFFF' {
			c.refuse("%s has a control character: %q", field, s)
			return
		}
	}
}

// frame requires valid texts and seeds.
func (c *checker) frame(f Frame) {
	c.text("Title", f.Title)
	c.text("Conditions", f.Conditions)
	c.text("Version", f.Version)
	for i, s := range f.Notes {
		c.text(fmt.Sprintf("Notes[%d]", i), s)
	}
	if f.Seeds < 0 {
		c.refuse("Seeds is %d, want 0 or more", f.Seeds)
	}
}

// policies requires a few policies, each with a name of its own.
func (c *checker) policies(field string, policies []Policy) {
	if n := len(policies); n == 0 || n > maxLines {
		c.refuse("%s has %d policies, want 1 to %d", field, n, maxLines)
	}
	seen := map[string]bool{}
	for i, p := range policies {
		at := fmt.Sprintf("%s[%d]", field, i)
		c.text(at+".Name", p.Name)
		c.text(at+".Parameters", p.Parameters)
		if p.Name == "" {
			c.refuse("%s.Name is empty", at)
		}
		if seen[p.Name] {
			c.refuse("%s.Name is %q, as another policy's", at, p.Name)
		}
		seen[p.Name] = true
	}
}

// axis requires ascending values from lo to hi, and at least as many as
// atLeast.
func (c *checker) axis(field string, values []float64, atLeast int, lo, hi float64) {
	if len(values) < atLeast {
		c.refuse("%s has %d values, want %d or more", field, len(values), atLeast)
	}
	for i, v := range values {
		c.value(fmt.Sprintf("%s[%d]", field, i), v, lo, hi)
		if i > 0 && !(v > values[i-1]) {
			c.refuse("%s[%d] is %v after %v, want ascending values", field, i, v, values[i-1])
		}
	}
}

// value requires a value from lo to hi. +Inf, which means never, is only
// allowed if hi is +Inf.
func (c *checker) value(field string, v, lo, hi float64) {
	if !(v >= lo && v <= hi) {
		c.refuse("%s is %v, want %s", field, v, bounds(lo, hi))
	}
}

// bounds describes the range from lo to hi.
func bounds(lo, hi float64) string {
	if math.IsInf(hi, 1) {
		return fmt.Sprintf("%v or more, +Inf for never", lo)
	}
	return fmt.Sprintf("%v to %v", lo, hi)
}

// finite is the upper bound of values without another bound. It is more than
// any run can give.
const finite = 1e15

// values requires n values from lo to hi.
func (c *checker) values(field string, values []float64, n int, lo, hi float64) {
	if len(values) != n {
		c.refuse("%s has %d values, want %d", field, len(values), n)
	}
	for i, v := range values {
		c.value(fmt.Sprintf("%s[%d]", field, i), v, lo, hi)
	}
}

// band requires n means, and n quantiles of each kind or none.
func (c *checker) band(field string, b Band, n int, hi float64) {
	c.values(field+".Mean", b.Mean, n, 0, hi)
	if len(b.Low) == 0 && len(b.High) == 0 {
		return
	}
	c.values(field+".Low", b.Low, n, 0, hi)
	c.values(field+".High", b.High, n, 0, hi)
	for i := range min(len(b.Low), len(b.High)) {
		if b.Low[i] > b.High[i] {
			c.refuse("%s.Low[%d] is %v, above High with %v", field, i, b.Low[i], b.High[i])
		}
	}
}

// estimate requires n means, and n standard errors or none.
func (c *checker) estimate(field string, e Estimate, n int) {
	c.values(field+".Mean", e.Mean, n, 0, finite)
	if len(e.SE) > 0 {
		c.values(field+".SE", e.SE, n, 0, finite)
	}
}

// between requires that from is not after to.
func (c *checker) between(from, to float64) {
	c.value("From", from, -finite, finite)
	c.value("To", to, -finite, finite)
	if from > to {
		c.refuse("From is %v, after To with %v", from, to)
	}
}
