package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"reflect"

	"github.com/agentarbor/arbor/llm"
)

// requestKey returns a hash of everything that can change an answer. Stream and Once do not.
func requestKey(partition, model string, req *llm.Request) (k key) {
	r := *req
	r.Stream, r.Once = false, false
	h := sha256.New()
	write(h, reflect.ValueOf([]string{partition, model}))
	write(h, reflect.ValueOf(r))
	h.Sum(k[:0])
	return k
}

// write writes a value with its types and lengths, so that two different values never have the same form. It reads
// all fields of a struct by reflection, so it includes fields that are added later.
func write(h hash.Hash, v reflect.Value) {
	if !v.IsValid() {
		v = reflect.ValueOf("nothing")
	}
	fmt.Fprintf(h, "%s;", v.Type())
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		write(h, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			write(h, v.Field(i))
		}
	case reflect.Slice:
		_ = binary.Write(h, binary.BigEndian, int64(v.Len())) // writing to a hash never fails
		if v.Type().Elem().Kind() == reflect.Uint8 {
			h.Write(v.Bytes())
			return
		}
		for i := range v.Len() {
			write(h, v.Index(i))
		}
	default:
		fmt.Fprintf(h, "%d;%v;", len(fmt.Sprint(v)), v)
	}
}
