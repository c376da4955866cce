package chart

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

var (
	pathElement = regexp.MustCompile(`<path d="([^"]*)"\s+style="([^"]*)"`)
	arc         = regexp.MustCompile(`A[0-9.]+,[0-9.]+ 0 [01] [01] `)
	coordinates = regexp.MustCompile(`(-?[0-9.e+-]+),(-?[0-9.e+-]+)`)
)

// drawn returns the bounding boxes of the paths of a picture with a style.
func drawn(t *testing.T, svg string, style *regexp.Regexp) (boxes []vg.Rectangle) {
	for _, m := range pathElement.FindAllStringSubmatch(svg, -1) {
		if !style.MatchString(m[2]) {
			continue
		}
		box := vg.Rectangle{Min: vg.Point{X: math.MaxFloat32, Y: math.MaxFloat32}, Max: vg.Point{X: -1, Y: -1}}
		for _, c := range coordinates.FindAllStringSubmatch(arc.ReplaceAllString(m[1], "L"), -1) {
			x, y := parse(t, c[1]), parse(t, c[2])
			box.Min.X, box.Max.X = min(box.Min.X, x), max(box.Max.X, x)
			box.Min.Y, box.Max.Y = min(box.Min.Y, y), max(box.Max.Y, y)
		}
		boxes = append(boxes, box)
	}
	return boxes
}

// The letters of these pictures are outlines, so their boxes are the same in
// every viewer.
func TestNoTextOfADocumentsPictureTouchesAnother(t *testing.T) {
	axis, ring, bar := regexp.MustCompile(`stroke:#57606A;stroke-width:0.8`), regexp.MustCompile(`stroke:#101418`), regexp.MustCompile(`^fill:#`)
	for name, rings := range map[string]int{"chain": 0, "dip": 0, "failure": 0, "herd": 0, "map": 5, "occ": 0, "ratelimit": 0} {
		text, err := os.ReadFile(filepath.Join("../../../../docs", name+".svg"))
		require.NoError(t, err)
		svg := string(text)
		all := texts(t, svg)
		require.Greater(t, len(all), 30)
		for i, a := range all {
			for _, b := range all[:i] {
				require.False(t, overlap(a.box, b.box), "%s: %q and %q", name, a.text, b.text)
			}
		}
		axes := drawn(t, svg, axis)
		require.NotEmpty(t, axes)
		for _, line := range axes {
			for _, a := range all {
				require.False(t, crosses(a.box, line), "%s: %q and an axis", name, a.text)
			}
		}
		circles := drawn(t, svg, ring)
		require.Len(t, circles, rings, "%s", name)
		for _, r := range circles {
			radius := (r.Max.X - r.Min.X) / 2 // its path has the left and the right end
			r.Min.Y, r.Max.Y = r.Min.Y-radius, r.Max.Y+radius
			for _, a := range all {
				inside := a.box.Min.X > r.Min.X && a.box.Max.X < r.Max.X
				require.True(t, inside || !overlap(a.box, r), "%s: %q and a ring", name, a.text)
			}
		}
		if name == "chain" {
			bars := drawn(t, svg, bar)[1:] // the paper is the first
			require.Len(t, bars, strings.Count(svg, ">user<")*4)
			for _, b := range bars {
				for _, a := range all {
					require.False(t, overlap(a.box, b), "%q and a bar", a.text)
				}
			}
		}
	}
}

// crosses reports whether a line runs through a text.
func crosses(text, line vg.Rectangle) bool {
	return line.Max.X > text.Min.X && line.Min.X < text.Max.X && line.Max.Y > text.Min.Y && line.Min.Y < text.Max.Y
}
