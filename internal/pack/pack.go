// Package pack writes values one behind the other as bytes, and reads them back: numbers as
// varints, texts with their lengths in front. It is for bytes that a program has written for
// itself, such as what follows from a log. A [Reader] trusts none of them: it never panics, and
// what it makes room for is never more than the bytes that are left.
//
// It imports event, for payloads.
package pack

import (
	"encoding/binary"
	"errors"
	"iter"
	"time"
)

// Int appends a number.
func Int[T ~int | ~int64](b []byte, n T) []byte { return binary.AppendVarint(b, int64(n)) }

// Text appends a text, or any bytes.
func Text[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Texts appends a list of texts.
func Texts(b []byte, list []string) []byte {
	b = Int(b, len(list))
	for _, s := range list {
		b = Text(b, s)
	}
	return b
}

// Bool appends a truth value.
func Bool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

// Time appends a time, which is read back in UTC.
func Time(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return Bool(b, false)
	}
	return Int(Int(Bool(b, true), t.Unix()), t.Nanosecond())
}

var errBroken = errors.New("the bytes are not what was written")

// Reader reads what the functions of this package have written. After something that cannot be
// it returns zero values, and [Reader.Err] says so. Texts are parts of its string, and not
// copied. The zero value has nothing to read.
type Reader struct {
	left string
	err  error
}

// NewReader reads a string.
func NewReader(data string) *Reader { return &Reader{left: data} }

// Err returns an error if something could not be read.
func (r *Reader) Err() error { return r.err }

// Left returns how many bytes were not read.
func (r *Reader) Left() int { return len(r.left) }

// Fail makes the reader fail, for who finds that what was read cannot be.
func (r *Reader) Fail() { r.left, r.err = "", errBroken }

// Done returns an error if something could not be read, or if something is left.
func (r *Reader) Done() error {
	if r.err == nil && r.left != "" {
		return errBroken
	}
	return r.err
}

func (r *Reader) uvarint() (n uint64) {
	for i := 0; i < len(r.left) && i < binary.MaxVarintLen64; i++ {
		c := r.left[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i == binary.MaxVarintLen64-1 && c > 1 {
				break
			}
			r.left = r.left[i+1:]
			return n
		}
	}
	r.Fail()
	return 0
}

// Int64 reads a number.
func (r *Reader) Int64() int64 {
	u := r.uvarint()
	n := int64(u >> 1)
	if u&1 != 0 {
		n = ^n
	}
	return n
}

// Int reads a number that an int holds.
func (r *Reader) Int() int {
	n := r.Int64()
	if int64(int(n)) != n {
		r.Fail()
		return 0
	}
	return int(n)
}

// Position reads a number that is not negative, such as a position in a log.
func (r *Reader) Position() int64 {
	n := r.Int64()
	if n < 0 {
		r.Fail()
		return 0
	}
	return n
}

// Count reads how many values follow, each of at least one byte.
func (r *Reader) Count() int {
	n := r.Int64()
	if n < 0 || n > int64(len(r.left)) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Items reads how many values follow, each of at least one byte, and yields their numbers from 0 for
// as long as they can be read.
func (r *Reader) Items() iter.Seq[int] {
	n := r.Count()
	return func(yield func(int) bool) {
		for i := range n {
			if r.err != nil || !yield(i) {
				return
			}
		}
	}
}

// Text reads a text.
func (r *Reader) Text() string {
	n := r.uvarint()
	if n > uint64(len(r.left)) {
		r.Fail()
		return ""
	}
	s := r.left[:n]
	r.left = r.left[n:]
	return s
}

// Texts reads a list of texts, nil if there are none.
func (r *Reader) Texts() (list []string) {
	for range r.Items() {
		list = append(list, r.Text())
	}
	return list
}

// Bytes reads a text as bytes of its own, nil if there are none.
func (r *Reader) Bytes() []byte {
	if s := r.Text(); s != "" {
		return []byte(s)
	}
	return nil
}

// Bool reads a truth value.
func (r *Reader) Bool() bool {
	if r.left == "" || r.left[0] > 1 {
		r.Fail()
		return false
	}
	is := r.left[0] == 1
	r.left = r.left[1:]
	return is
}

// Time reads a time.
func (r *Reader) Time() time.Time {
	if !r.Bool() {
		return time.Time{}
	}
	seconds, nanos := r.Int64(), r.Int64()
	t := time.Unix(seconds, nanos).UTC()
	if y := t.Year(); r.err != nil || nanos < 0 || nanos >= 1e9 || y < 0 || y > 9999 {
		r.Fail()
		return time.Time{}
	}
	return t
}
