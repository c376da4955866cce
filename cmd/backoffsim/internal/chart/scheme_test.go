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

func TestNumbersOnATintCanBeRead(t *testing.T) {
	for _, tint := range tints {
		require.Greater(t, contrast(tint.text, tint.fill), 4.5, "%v", tint)
	}
}

func TestTintsDarkenWithTheRecovery(t *testing.T) {
	for i := 1; i < len(tints); i++ {
		require.Less(t, luminance(tints[i].fill)+.01, luminance(tints[i-1].fill), i)
	}
}

// The matrices are those for a total loss of the red and of the green cones, on
// linear light, from Machado, Oliveira and Fernandes (2009).
var sights = map[string][3][3]float64{
	"all cones":      {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"no red cones":   {{.152286, 1.052583, -.204868}, {.114503, .786281, .099216}, {-.003882, -.048116, 1.051998}},
	"no green cones": {{.367322, .860646, -.227968}, {.280085, .672501, .047413}, {-.011820, .042940, .968881}},
}

func TestColoursDifferForWhoSeesFewer(t *testing.T) {
	for sight, m := range sights {
		for i, a := range series {
			for k, b := range series[:i] {
				at := fmt.Sprintf("%s: %d and %d", sight, i, k)
				require.Greater(t, apart(m, a.light, b.light), .085, at)
				require.Greater(t, apart(m, a.dark, b.dark), .085, at)
			}
		}
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

// apart is the distance of two colours in Oklab, as seen through m.
func apart(m [3][3]float64, a, b color.NRGBA) float64 {
	sum := 0.0
	p, q := oklab(m, a), oklab(m, b)
	for i := range p {
		sum += (p[i] - q[i]) * (p[i] - q[i])
	}
	return math.Sqrt(sum)
}

func oklab(m [3][3]float64, c color.NRGBA) [3]float64 {
	in := [3]float64{light(c.R), light(c.G), light(c.B)}
	var v [3]float64
	for i := range v {
		v[i] = min(max(m[i][0]*in[0]+m[i][1]*in[1]+m[i][2]*in[2], 0), 1)
	}
	l := math.Cbrt(.4122214708*v[0] + .5363325363*v[1] + .0514459929*v[2])
	k := math.Cbrt(.2119034982*v[0] + .6806995451*v[1] + .1073969566*v[2])
	s := math.Cbrt(.0883024619*v[0] + .2817188376*v[1] + .6299787005*v[2])
	return [3]float64{
		.2104542553*l + .7936177850*k - .0040720468*s,
		1.9779984951*l - 2.4285922050*k + .4505937099*s,
		.0259040371*l + .7827717662*k - .8086757660*s,
	}
}
