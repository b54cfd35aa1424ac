package graphdraw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// A picture has everything where SVG draws it.
func TestLayout(t *testing.T) {
	for name, g := range goldens(t) {
		var out bytes.Buffer
		require.NoError(t, draw(&out, g, (*Picture).SVG))
		p, err := Of(g)
		require.NoError(t, err, name)
		require.NoError(t, p.Arrange(), name)
		require.Contains(t, out.String(), fmt.Sprintf(`width="%d" height="%d"`, p.Width+2*margin, p.Height+2*margin))
		var check func(p *Picture)
		check = func(p *Picture) {
			for _, b := range p.Boxes {
				require.NotEmpty(t, b.Text)
				require.Equal(t, b.Kind == "node" || b.Kind == "tool", b.ID != "", b)
				require.Contains(t, out.String(), fmt.Sprintf(`<rect x="%d" y="%d" width="%d" height="%d"`, b.X, b.Y, b.Width, b.Height), name)
				if b.Inner != nil {
					require.Contains(t, out.String(), fmt.Sprintf(`<g transform="translate(%d %d)">`, b.InnerAt.X, b.InnerAt.Y), name)
					require.LessOrEqual(t, b.InnerAt.Y+b.Inner.Height, b.Y+b.Height)
					check(b.Inner)
				}
			}
			for _, l := range p.Lines {
				from, to := p.Boxes[l.From], p.Boxes[l.To]
				require.Equal(t, from.Y+from.Height, l.Points[0].Y, "it begins at the foot of its box")
				require.Equal(t, to.Y, l.Points[len(l.Points)-1].Y, "and ends at the head of the other")
				require.Equal(t, len(l.Text) > 0, l.Label != nil)
				if l.Label != nil {
					require.Contains(t, out.String(), fmt.Sprintf(`<rect x="%d" y="%d" width="%d" height="%d"`, l.Label.X, l.Label.Y, l.Label.Width, l.Label.Height), name)
				}
			}
		}
		check(p)
		require.Len(t, p.Boxes, len(g.Nodes)+1+map[bool]int{true: 1}[g.OnError.Fallback != ""])
		for i, e := range g.Edges {
			require.Equal(t, e.From, p.Boxes[p.Lines[i].From].ID)
			require.Equal(t, e.To, p.Boxes[p.Lines[i].To].ID)
		}
		data := must.Get(json.Marshal(p))
		var again Picture
		require.NoError(t, json.Unmarshal(data, &again))
		twice := must.Get(json.Marshal(&again))
		require.Equal(t, string(data), string(twice))
	}
}

func TestArrange(t *testing.T) {
	p := &Picture{Boxes: []Box{{ID: "a", Kind: "router", Text: []string{"a"}}, {ID: "b", Text: []string{"b"}}, {ID: "c", Text: []string{"c"}}},
		Lines: []Line{{From: 0, To: 1, Text: []string{"when it rains"}}, {From: 0, To: 2}}}
	require.NoError(t, p.Arrange())
	require.Equal(t, "router", p.Boxes[0].Kind)
	require.Len(t, p.Boxes, 3, "a beginning is drawn for graphs alone")
	require.Len(t, p.Lines, 2)
	require.NotNil(t, p.Lines[0].Label)
	require.Nil(t, p.Lines[1].Label)
	require.Less(t, p.Boxes[0].Y, p.Boxes[1].Y)
	require.Equal(t, p.Boxes[1].Y, p.Boxes[2].Y)

	p = &Picture{Boxes: []Box{{Text: []string{"a"}}, {Text: []string{"b"}}}, Lines: []Line{{From: 0, To: 1}, {From: 1, To: 0}}}
	require.ErrorIs(t, p.Arrange(), ErrInvalid)
	require.ErrorIs(t, (&Picture{Lines: []Line{{From: 0, To: 1}}}).Arrange(), ErrInvalid)
	p = &Picture{}
	require.NoError(t, p.Arrange())
	require.Empty(t, p.Boxes)
}
