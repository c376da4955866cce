package chart

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// With other fonts than those that the texts were measured in, texts run into
// each other, so a picture must not depend on the fonts of its reader.
func TestAPictureUsesNoFontOfItsReader(t *testing.T) {
	each(t, func(t *testing.T, c Chart) {
		s := svgOf(t, c)
		require.NotContains(t, s, "<text")
		for _, m := range regexp.MustCompile(`<use href="#([rb][0-9]+)"`).FindAllStringSubmatch(s, -1) {
			require.Contains(t, s, `<path id="`+m[1]+`" d="M`)
		}
	})
}

func TestAnOutlineIsAsWideAsItWasMeasured(t *testing.T) {
	for _, l := range []lettering{titleText, bodyText, captionText} {
		shapes := map[string]string{}
		letters, ok := l.outline("AVAT To 10 %|", shapes)
		require.True(t, ok)
		require.Len(t, shapes, len("AVTo10%|"))
		all := regexp.MustCompile(` x="(\d+)"`).FindAllStringSubmatch(letters, -1)
		last := parse(t, all[len(all)-1][1]) * l.size / 2048
		require.InDelta(t, float64(l.width("AVAT To 10 %|")-l.width("|")), float64(last), .1)
	}
}

func TestALetterThatTheFontDoesNotHaveStaysText(t *testing.T) {
	d := dip(shapes)
	d.Title = "再試行 & <retries>"
	s := svgOf(t, d)
	require.Equal(t, 1, strings.Count(s, "<text"))
	require.Contains(t, s, ">再試行 &amp; &lt;retries&gt;</text>")
}

// The shape of an l is a box, from the line up.
func TestALetterStandsOnItsLine(t *testing.T) {
	shapes := map[string]string{}
	_, ok := bodyText.outline("l", shapes)
	require.True(t, ok)
	require.Len(t, shapes, 1)
	for _, path := range shapes {
		require.Equal(t, "M138 0L138 1484L318 1484L318 0L138 0Z", path)
	}
}
