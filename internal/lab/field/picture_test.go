package main

import (
	"html"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The widths of the letters from the space to ~ in DejaVu Sans, the widest of
// the fonts that readers usually have, in thousandths of the size.
var letterWidths = map[bool][]int{
	false: {
		318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636,
		636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
		603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635,
		634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
	},
	true: { // bold
		348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696, 696,
		696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850,
		733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678, 435, 716,
		712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838,
	},
}

// sizes are the sizes of the classes of text. The others are bold.
var sizes = map[string]float64{"": 11, "small": 10.5, "name": 11, "load": 13, "title": 16}

type textBox struct {
	text                     string
	left, right, top, bottom float64
}

var textElement = regexp.MustCompile(`<text x="([0-9.]+)"(?: dx="(-?[0-9]+)")? y="([0-9.]+)"(?: class="(\w*)")?(?: text-anchor="(\w+)")?>([^<]*)</text>`)

func textBoxes(t *testing.T, svg string) (all []textBox) {
	for _, m := range textElement.FindAllStringSubmatch(svg, -1) {
		x, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		dx, _ := strconv.ParseFloat(m[2], 64) // 0 if it is not there
		y, err := strconv.ParseFloat(m[3], 64)
		require.NoError(t, err)
		size := sizes[m[4]]
		require.Positive(t, size, m[4])
		text, wide := html.UnescapeString(m[6]), 0
		for _, letter := range text {
			wide += letterWidths[m[4] != "" && m[4] != "small"][letter-' ']
		}
		width := float64(wide) / 1000 * size
		x += dx
		if m[5] == "end" {
			x -= width
		}
		all = append(all, textBox{text, x, x + width, y - .72*size, y + .1*size})
	}
	return all
}

// The fonts of a reader may be wider than those that the style asks for first.
func TestNoTextOfThePictureTouchesAnotherInAWideFont(t *testing.T) {
	for _, name := range []string{"field.svg", "field-restart.svg"} {
		t.Run(name, func(t *testing.T) { noTextTouches(t, name) })
	}
}

func noTextTouches(t *testing.T, name string) {
	svg, err := os.ReadFile("../../../docs/" + name)
	require.NoError(t, err)
	all := textBoxes(t, string(svg))
	require.Len(t, all, len(regexp.MustCompile("<text").FindAll(svg, -1)))
	require.Greater(t, len(all), 30)
	for i, a := range all {
		require.GreaterOrEqual(t, a.left, 0.0, a.text)
		require.LessOrEqual(t, a.right, float64(width), a.text)
		for _, b := range all[:i] {
			apart := a.left >= b.right || b.left >= a.right || a.top >= b.bottom || b.top >= a.bottom
			require.True(t, apart, "%q and %q", a.text, b.text)
		}
	}
}
