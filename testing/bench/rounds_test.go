package bench

// inTurns has each of the sides measure itself that many times, turn by turn
// and each time beginning with another, and returns every side's figures in the
// order of the rounds. A round to warm up comes first and does not count.
func inTurns[T any](rounds int, sides ...func() T) [][]T {
	figures := make([][]T, len(sides))
	for round := range rounds + 1 {
		for i := range sides {
			side := (round + i) % len(sides)
			figure := sides[side]()
			if round > 0 {
				figures[side] = append(figures[side], figure)
			}
		}
	}
	return figures
}

// column is a field of every figure.
func column[T any](figures []T, field func(T) float64) []float64 {
	values := make([]float64, len(figures))
	for i, f := range figures {
		values[i] = field(f)
	}
	return values
}
