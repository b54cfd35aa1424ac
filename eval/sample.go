package eval

import "github.com/agentarbor/arbor/internal/yamldoc"

// maxSample is the maximal size of a file of labelled answers, in bytes.
const maxSample = 4 << 20

// LoadSample reads answers that people have judged, for [NewJudge]: a YAML list whose entries have say, answer,
// statement and true. file is the name of the file for errors. An error is an [*Error] with all problems.
func LoadSample(data []byte, file string) ([]Labelled, error) {
	d := &yamldoc.Decoder{File: file}
	var sample []Labelled
	for _, body := range d.Documents(data, maxSample) {
		d.Name = "a sample"
		d.Entries(&yamldoc.Key{Type: "a list of answers"}, body, func(entry yamldoc.Node) {
			var l Labelled
			keys := []yamldoc.Key{
				yamldoc.String("say", "", &l.Say),
				yamldoc.OptionalString("answer", &l.Answer), // the answer may be empty
				yamldoc.String("statement", "", &l.Statement),
				yamldoc.Flag("true", &l.True)}
			found := d.Mapping(keys, "", entry)
			for _, k := range keys {
				if _, ok := found[k.Name]; !ok {
					d.Add(entry, "%s is missing: an entry has say, answer, statement and true", k.Name)
				}
			}
			sample = append(sample, l)
		})
	}
	if len(sample) == 0 && d.Problems == 0 {
		d.AddAt(1, 0, "the file holds nothing: a sample is a list of answers with say, answer, statement and true")
	}
	return sample, d.Err()
}
