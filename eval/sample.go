package eval

import "github.com/agentarbor/arbor/internal/yamldoc"

// maxSample bounds a file of labelled answers, in bytes.
const maxSample = 4 << 20

// LoadSample reads answers that people have judged, for [WithSample]: a list in YAML whose
// entries have say, answer, statement and true. The name of the file is for errors, which are an
// [*Error] with all problems.
func LoadSample(data []byte, file string) ([]Labelled, error) {
	var problems []Problem
	r := &yamldoc.Reader{Report: func(line int, message string) {
		problems = append(problems, Problem{File: file, Line: line, Message: message})
	}}
	var sample []Labelled
	for _, doc := range r.Documents(data, maxSample) {
		body := r.Parse(doc)
		list := r.List(&yamldoc.Field{Key: "a sample", Line: body.Line(), Value: body})
		for i := range list.Len() {
			sample = append(sample, labelled(r, list.Item(i)))
		}
	}
	if len(sample) == 0 && len(problems) == 0 {
		r.Add(1, "the file holds nothing: a sample is a list of answers with say, answer, statement and true")
	}
	return sample, asError(problems)
}

func labelled(r *yamldoc.Reader, n yamldoc.Node) (l Labelled) {
	f := r.Fields(n, "an entry of the sample", nil, "say", "answer", "statement", "true")
	if n.Kind() != yamldoc.Mapping {
		return l
	}
	for _, key := range []string{"say", "answer", "statement", "true"} {
		p := f[key]
		switch {
		case p == nil:
			r.Add(n.Line(), "%s is missing: an entry has say, answer, statement and true", key)
		case key == "say":
			l.Say = r.Text(p)
		case key == "answer":
			l.Answer = r.Maybe(p) // it may be that nothing was said
		case key == "statement":
			l.Statement = r.Text(p)
		default:
			l.True = r.Flag(p)
		}
	}
	return l
}
