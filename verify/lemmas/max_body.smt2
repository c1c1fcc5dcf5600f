; A body with h(max(a, b)) = max(h(a), h(b)) lets a maximum over devices pass, from one device on by induction.
;; step base
(declare-sort M 0)
(declare-fun h (M) M)
(declare-fun x (Int) M)
(declare-fun X (Int) M)
(declare-fun Y (Int) M)
(assert (= (X 1) (x 0)))
(assert (= (Y 1) (h (x 0))))
;; goal
(assert (not (= (Y 1) (h (X 1)))))
;; step induction
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-fun h (M) M)
(declare-fun x (Int) M)
(declare-fun X (Int) M)
(declare-fun Y (Int) M)
(declare-const n Int)
(assert (>= n 1))
(assert (= (h (op (X n) (x n))) (op (h (X n)) (h (x n)))))
(assert (= (X (+ n 1)) (op (X n) (x n))))
(assert (= (Y (+ n 1)) (op (Y n) (h (x n)))))
(assert (= (Y n) (h (X n))))
;; goal
(assert (not (= (Y (+ n 1)) (h (X (+ n 1))))))
