package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
)

// pictures are the files that a chart is drawn to.
type pictures struct{ svg, png, html string }

// define defines the flags.
func (p *pictures) define(set *flag.FlagSet) {
	set.StringVar(&p.svg, "svg", "", "draw the chart to this `file`, as SVG for light and dark colour schemes")
	set.StringVar(&p.png, "png", "", "draw the chart to this `file`, as PNG")
	set.StringVar(&p.html, "html", "", "write the chart and its numbers to this `file`, as one HTML page")
}

// wanted reports whether a file is given.
func (p *pictures) wanted() bool { return *p != pictures{} }

// check refuses files that cannot be written, before a long run.
func (p *pictures) check() error {
	for _, path := range []string{p.svg, p.png, p.html} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return fmt.Errorf("%s cannot be written: there is no directory %s", path, filepath.Dir(path))
		}
	}
	return nil
}

// draw draws c to each of the files.
func (p *pictures) draw(title string, c chart.Chart) error {
	for _, f := range []struct {
		path string
		draw func(io.Writer) error
	}{
		{p.svg, func(w io.Writer) error { return chart.SVG(w, c) }},
		{p.png, func(w io.Writer) error { return chart.PNG(w, c) }},
		{p.html, func(w io.Writer) error { return chart.HTML(w, title, c) }},
	} {
		if err := write(f.path, f.draw); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file, and removes it if that fails.
func write(path string, draw func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = draw(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}
