package chart

import (
	"errors"
	"io"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// layOut checks a chart and makes its layout.
func layOut(c Chart) (*figure, error) {
	if c == nil {
		return nil, errors.New("chart: no chart to draw")
	}
	return c.draw()
}

// dpi gives a PNG two pixels for each pixel of a browser.
const dpi = 192

// PNG writes c in light colours, with two pixels for each pixel of the SVG.
// Letters that Liberation Sans does not have, such as Chinese ones, become
// boxes. An SVG shows them.
func PNG(w io.Writer, c Chart) error {
	f, err := layOut(c)
	if err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, f.height()), vgimg.UseDPI(dpi))
	f.paint(draw.New(canvas))
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}
