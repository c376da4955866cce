package docpage

import (
	"encoding/xml"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
)

func TestATemplateIsFilled(t *testing.T) {
	text, err := Fill("{{twice .}}", 2, template.FuncMap{"twice": func(n int) int { return 2 * n }})
	require.NoError(t, err)
	require.Equal(t, "4", text)
	_, err = Fill("{{", nil, nil)
	require.Error(t, err)
}

func TestAVersionIsThatOfGoMod(t *testing.T) {
	const mod = "require (\n\texample.com/a/v2 v2.1.0\n\texample.com/a v1.0.0 // indirect\n)\n"
	require.Equal(t, "v1.0.0", Version(mod, "example.com/a"))
	require.Equal(t, "v2.1.0", Version(mod, "example.com/a/v2"))
	require.Empty(t, Version(mod, "example.com/b"))
	require.Empty(t, Version(mod, ""))
}

func TestAPictureIsXML(t *testing.T) {
	var s SVG
	s.Text(1, 2, "name", "a < b")
	var root struct {
		Width int    `xml:"width,attr"`
		Title string `xml:"title"`
		Desc  string `xml:"desc"`
		Texts []struct {
			Class string `xml:"class,attr"`
			Words string `xml:",chardata"`
		} `xml:"text"`
	}
	require.NoError(t, xml.Unmarshal([]byte(s.Document(30, 20, "A & B", "what < it", "<style></style>\n")), &root))
	require.Equal(t, 30, root.Width)
	require.Equal(t, "A & B", root.Title)
	require.Equal(t, "what < it", root.Desc)
	require.Equal(t, "a < b", root.Texts[1].Words)
	require.Equal(t, "name", root.Texts[1].Class)
}
