package chart

import (
	"fmt"
	"image/color"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestColoursStandOutFromThePaperInBothSchemes(t *testing.T) {
	for _, s := range append(series[:], ink, muted) {
		want := 3.0
		if s == ink || s == muted {
			want = 4.5 // as WCAG 2.2 asks of text
		}
		require.Greater(t, contrast(s.light, paper.light), want, "%v", s)
		require.Greater(t, contrast(s.dark, paper.dark), want, "%v", s)
	}
}

func TestEveryLineHasDashesOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range dashes {
		require.False(t, seen[fmt.Sprint(d)], "%v", d)
		seen[fmt.Sprint(d)] = true
	}
}

// light is the intensity of a channel.
func light(v uint8) float64 {
	c := float64(v) / 255
	if c <= .04045 {
		return c / 12.92
	}
	return math.Pow((c+.055)/1.055, 2.4)
}

func luminance(c color.NRGBA) float64 {
	return .2126*light(c.R) + .7152*light(c.G) + .0722*light(c.B)
}

func contrast(a, b color.NRGBA) float64 {
	x, y := luminance(a)+.05, luminance(b)+.05
	return max(x, y) / min(x, y)
}
