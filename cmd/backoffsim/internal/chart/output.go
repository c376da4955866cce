package chart

import (
	"errors"
	"io"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// lay checks a chart and lays it out.
func lay(c Chart) (*figure, error) {
	if c == nil {
		return nil, errors.New("chart: no chart to draw")
	}
	return c.draw()
}

// dpi makes two pixels of each pixel of a browser.
const dpi = 192

// PNG writes c in light colours, with two pixels for each of the SVG's. Letters that
// Liberation Sans has not got, such as Chinese ones, become boxes; an SVG shows them.
func PNG(w io.Writer, c Chart) error {
	f, err := lay(c)
	if err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, f.height()), vgimg.UseDPI(dpi))
	f.paint(draw.New(canvas))
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}
