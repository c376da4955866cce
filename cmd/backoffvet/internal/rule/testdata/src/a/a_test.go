package a

func _() { bad() }
