package b

func bad() {}

func _() { bad() }
