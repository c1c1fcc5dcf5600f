; No index lies in two devices' ranges. First, boundaries never fall: b(c + 1) <= b(d) for c < d, by induction on d. Then two owners meet a contradiction.
;; step base
(declare-fun b (Int) Int)
(declare-const c Int)
(declare-const d Int)
(assert (= d (+ c 1)))
;; goal
(assert (not (<= (b (+ c 1)) (b d))))
;; step induction
(declare-fun b (Int) Int)
(declare-const c Int)
(declare-const d Int)
(assert (< c d))
(assert (<= (b d) (b (+ d 1))))
(assert (<= (b (+ c 1)) (b d)))
;; goal
(assert (not (<= (b (+ c 1)) (b (+ d 1)))))
;; step unique
(declare-fun b (Int) Int)
(declare-const c Int)
(declare-const d Int)
(declare-const i Int)
(assert (=> (< c d) (<= (b (+ c 1)) (b d))))
(assert (=> (< d c) (<= (b (+ d 1)) (b c))))
(assert (and (<= (b c) i) (< i (b (+ c 1)))))
(assert (and (<= (b d) i) (< i (b (+ d 1)))))
;; goal
(assert (not (= c d)))
