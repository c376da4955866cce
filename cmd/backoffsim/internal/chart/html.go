package chart

import (
	"bytes"
	_ "embed"
	"errors"
	"html/template"
	"io"
)

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A section is one chart of a page.
type section struct {
	Title   string
	Picture template.HTML
	Tables  []table
}

// HTML writes a page with all charts, each with its numbers as a table. The
// page loads nothing and follows the reader's colour scheme. If a chart is
// invalid, HTML writes nothing.
func HTML(w io.Writer, title string, charts ...Chart) error {
	c := &checker{chart: "HTML"}
	c.text("title", title)
	if len(charts) == 0 {
		c.refuse("no chart to draw")
	}
	errs := []error{c.err}
	var sections []section
	for _, chart := range charts {
		f, err := layOut(chart)
		if errs = append(errs, err); err == nil {
			sections = append(sections, section{f.frame.Title, template.HTML(f.svg()), f.tables})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := page.Execute(&b, map[string]any{"Title": title, "Sections": sections}); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}
