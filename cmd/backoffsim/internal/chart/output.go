package chart

import (
	"errors"
	"io"
)

type figure struct{}

// SVG writes c as a picture that follows the colour scheme of its reader.
func SVG(w io.Writer, c Chart) error { return errors.ErrUnsupported }

// PNG writes c in light colours, with two pixels for each of the SVG's.
func PNG(w io.Writer, c Chart) error { return errors.ErrUnsupported }

// HTML writes a page with all charts and, beside each, its numbers as a table. It loads
// nothing, and follows the colour scheme of its reader.
func HTML(w io.Writer, title string, charts ...Chart) error { return errors.ErrUnsupported }

func (Dip) draw() (*figure, error)     { return nil, nil }
func (Failure) draw() (*figure, error) { return nil, nil }
func (Map) draw() (*figure, error)     { return nil, nil }
func (Herd) draw() (*figure, error)    { return nil, nil }
func (OCC) draw() (*figure, error)     { return nil, nil }
func (Layers) draw() (*figure, error)  { return nil, nil }
func (Delays) draw() (*figure, error)  { return nil, nil }
